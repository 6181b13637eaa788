"""What a machine can do, and what it is told about the rest."""

from __future__ import annotations

import importlib.util
import json

from tests.nas.runs import nas


def found(capsys) -> dict[tuple[str, str], dict[str, str]]:
    code, out, err = nas(capsys, "doctor", "--json")
    assert (code, err) == (0, "")
    return {(row["group"], row["what"]): row for row in json.loads(out)["findings"]}


def test_every_runtime_and_extra_is_looked_at(capsys):
    from hardware_profiles import runtimes

    rows = found(capsys)
    assert {what for group, what in rows if group == "runtimes"} == set(runtimes.names())
    assert {what for group, what in rows if group == "extras"} >= {"onnx", "mobile", "datasets"}
    assert rows["runtimes", "torch-eager"]["available"] == "yes"
    assert all(row["message"] for row in rows.values())
    code, out, _ = nas(capsys, "doctor")
    assert code == 0 and "torch-eager" in out


def test_a_cluster_is_looked_for_at_the_variable_and_on_this_machine(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert "RAY_ADDRESS is not set, and Ray is not running here" in found(capsys)["Ray", "cluster"]["message"]
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/ray_current_cluster").write_text("127.0.0.1:9")
    assert "this machine: no Ray cluster at '127.0.0.1:9'" in found(capsys)["Ray", "cluster"]["message"]
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:8")
    rows = json.loads(nas(capsys, "doctor", "--json")[1])["findings"]
    assert [row["message"].split(":")[0] for row in rows if row["what"] == "cluster"] == ["RAY_ADDRESS", "this machine"]


def test_what_is_missing_comes_with_the_command_that_installs_it(capsys, monkeypatch):
    honest = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None if name == "onnxruntime" else
                        honest(name, *rest))
    row = found(capsys)["runtimes", "onnx-runtime"]
    assert row["available"] == "no" and "pip install 'paretoformer[onnx]'" in row["message"]
