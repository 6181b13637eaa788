"""Benchmarks are run by hand, so a renamed import would stay unnoticed: every one is imported here."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_a_benchmark_imports_and_has_a_command(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in [name for name in sys.modules if (FOLDER / f"{name}.py").is_file()]:
        monkeypatch.delitem(sys.modules, name)
    assert callable(importlib.import_module(path.stem).main)


@pytest.fixture
def mixer_scaling(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("mixer_scaling")


def test_a_stopped_scaling_run_is_resumed(mixer_scaling: ModuleType, tmp_path: Path) -> None:
    names, lengths, settings = ["attention", "fnet"], [128, 256], {"width": 32}
    facts, path = replace(mixer_scaling.FACTS, width=256), tmp_path / "journal.jsonl"
    first = mixer_scaling.measure(names, lengths, facts, 4, 10.0, mixer_scaling.Journal(path, settings))
    whole = path.read_text("utf-8")
    path.write_text(whole[: len(whole) // 2], "utf-8")  # in the middle of a line
    kept = mixer_scaling.Journal(path, settings).times
    again = mixer_scaling.measure(names, lengths, facts, 4, 10.0, mixer_scaling.Journal(path, settings))
    assert {place: len(values) for place, values in again.items()} == dict.fromkeys(first, 5)
    assert kept and all(again[place][: len(values)] == values for place, values in kept.items())
    with pytest.raises(SystemExit, match="not {'width': 64}; use another --journal"):
        mixer_scaling.Journal(path, {"width": 64})


def test_lengths_beyond_the_limit_are_skipped_and_exponents_fitted(mixer_scaling: ModuleType) -> None:
    journal = mixer_scaling.Journal(None, {})
    for n in (128, 256, 512):
        journal.times["attention", n] = [1e-6 * n**2] * 5
        journal.times["fnet", n] = [2.6e-4 * n] * 5
    del journal.times["attention", 512]
    times = mixer_scaling.measure(["attention"], [128, 256, 512], mixer_scaling.FACTS, 4, 0.2, journal)
    summaries = mixer_scaling.summary(["attention", "fnet"], [128, 256, 512], times)
    assert summaries["attention"]["skipped"] == [512] and summaries["attention"]["exponent"] == 2
    assert summaries["fnet"]["exponent"] == 1 and summaries["fnet"]["beats_attention_from"] is None


def test_decoders_that_were_compared_are_not_compared_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module("exported_decoders")
    rows = [{"space": "lm-tiny", "format": "onnx", "key": module.drawn("lm-tiny", place).key[:12], "equal": place == 0,
             "tokens": 12, "distinct_tokens": 5, "mixers": "attention"} for place in range(2)]
    monkeypatch.setattr(module, "ProcessPoolExecutor", lambda *_, **__: pytest.fail("it compares again"))
    module.append(tmp_path, module.NAME, rows)
    found = module.of_format("onnx", ["lm-tiny"], 2, tmp_path)
    assert [(row["key"], row["equal"]) for row in found] == [(rows[0]["key"], "True"), (rows[1]["key"], "False")]
