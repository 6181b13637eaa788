"""A pipeline that cannot run says so before its first stage: every fault at once, with its key, and nothing is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hardware_profiles.runtimes import xnnpack
from nas.pipeline.checking import in_file
from nas.pipeline.reading import parse_pipeline
from search_spaces import InputError
from search_spaces.errors import Option, Setting
from tests.nas.pipeline.test_pipeline import CONFIG
from tests.nas.runs import SETTINGS, refused

pytestmark = pytest.mark.usefixtures("here")


def told(text: str) -> dict[str, str]:
    """What is wrong with a config, by key."""
    with pytest.raises(InputError) as caught:
        parse_pipeline(text, "p.yaml")
    return {fault.key: fault.message for fault in caught.value.faults}


@pytest.mark.parametrize("mode", [(), ("--dry-run",)])
def test_what_would_fail_hours_later_is_told_at_once_in_both_modes(
        mode: tuple[str, ...], capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nas.stages.export.formats.executorch.missing",
                        lambda: "executorch is not installed; run `pip install it`")
    Path("p.yaml").write_text(CONFIG.replace("text.txt", "/nope.txt") + "devices: [{device: cpux}]\n"
                              "export: [{format: onnx}, {format: executorch}]\n", "utf-8")
    before = sorted(Path().rglob("*"))
    lines = refused(capsys, "run", "p.yaml", *mode).splitlines()
    assert len(lines) == 3 and sorted(Path().rglob("*")) == before
    for says in ("p.yaml: devices.0.device: 'cpux' is unknown; allowed: ", "; did you mean cpu?",
                 "p.yaml: data.train: /nope.txt: no such file",
                 "p.yaml: export.1.format: executorch cannot be written here: executorch is not installed; run "):
        assert any(says in line for line in lines), lines


@pytest.mark.parametrize("mode", [(), ("--dry-run",)])
def test_a_run_of_other_settings_is_told_in_both_modes(mode: tuple[str, ...], capsys: Any,
                                                       finished: Callable[[], None]) -> None:
    finished()
    Path("p.yaml").write_text(CONFIG.replace("run: p", "run: a"), "utf-8")
    (line,) = refused(capsys, "run", "p.yaml", *mode).splitlines()
    assert "p.yaml: run: runs/a exists with other settings: " in line and "steps is 6 in the run, requested: 4" in line
    assert "choose another run name, or archive this run with --from prepare" in line
    assert not Path("runs/a/pipeline.json").exists()
    assert parse_pipeline(Path("p.yaml").read_text("utf-8"), "p.yaml", restart=True).run == "a"


def test_a_run_that_is_there_needs_its_files_no_more(finished: Callable[[], None]) -> None:
    finished()
    Path("text.txt").unlink()
    text = CONFIG.replace("run: p", "run: a").replace(
        "training: {steps: 4, batch_size: 2, warmup: 0, lr: 0.01, evaluate_limit: 4, n_random: 1, device: cpu}",
        f"training: {SETTINGS}")
    assert parse_pipeline(text, "p.yaml").run == "a"
    assert set(told(text.replace("run: a", "run: b"))) == {"data.train"}


def test_wrong_settings_are_named_as_in_the_file_and_all_at_once() -> None:
    text = CONFIG.replace("batch_size: 2, warmup: 0", "batchsize: 2, warmup: soon").replace(
        "training: {steps: 3}", "training: {stepz: 3, temperature: 0, lr: fast}").replace("run: p", "runn: p").replace(
        "trials: 8", "trails: 8, max: [params=lots]")
    found = told(text)
    assert set(found) == {"run", "runn", "training.batchsize", "training.warmup", "retrain.training.stepz",
                          "retrain.training.temperature", "retrain.training.lr", "search.trails"}
    for key, meant in (("runn", "run"), ("training.batchsize", "batch_size"), ("retrain.training.stepz", "steps"),
                       ("search.trails", "trials")):
        assert f"did you mean {meant}?" in found[key]
    assert not any("--set" in says for says in found.values())


@pytest.mark.parametrize(("change", "key", "says"), [
    (("run: p", "run: a b/c"), "run", "'a b/c' is not allowed"),
    (("device: cpu}", "device: toaster}"), "training.device", "'toaster' cannot be used"),
    (("trials: 8", "sampler: predictr"), "search.sampler", "did you mean predictor?"),
    (("trials: 8", "max: [params=lots]"), "search.max", "'lots' is not a value"),
    (("trials: 8", "objectives: [los]"), "search.objectives", "'los' is unknown"),
    (("trials: 8", "max: ['latency:cpux=3ms']"), "search", "cpux: is unknown: "),
    (("trials: 8", "max: ['latency:cpu=3ms']"), "search", "cpu: has no measured profile"),
    (("trials: 8", "devices: [cpu]"), "search.devices", "list the devices under devices"),
    (("trials: 8", "warm_start: [nobody]"), "search.warm_start", "nobody: is not a space, architecture or file"),
    (("pick: {knee: true}", "pick: [{knee: true}, {min: [params=lots]}]"), "pick.1.min", "'lots' is not a value"),
    (("pick: {knee: true}", "pick: {knee: true, device: fridge}"), "pick", "fridge: is unknown"),
    (("retrain: {", "retrain: {teacher: nobody, "), "retrain.teacher", "nobody: is not the folder of a subnet"),
    (("retrain: {", "retrain: {distill: sound, "), "retrain.distill", "'sound' is not allowed"),
    (("pick:", "export: [{format: torch-export, int8: true}]\npick:"), "export.0.int8",
     "is not supported by torch-export"),
    (("pick:", "export: [{format: onx}]\npick:"), "export.0.format", "did you mean onnx?"),
    (("pick:", "devices: [{device: cpu, budget: soon}]\npick:"), "devices.0.budget", "'soon' is not allowed"),
    (("pick:", "devices: [{device: a100-estimated, check: 3}]\npick:"), "devices.0.check", "set it to 0"),
    (("pick:", "devices: [{device: cpu, check: 2}]\npick:"), "devices.0.check", "2 is not allowed; allowed: 4 or more"),
    (("vocab_size: '60'", "colour: red"), "data.colour", "unknown; allowed: train"),
    (("train: text.txt", "train: text.txt, valid: ."), "data.valid", ".: is a folder; give a file in it"),
    (("task: lm", "task: translation"), "task", "needs a space of the family seq2seq"),
])
def test_every_part_is_checked(change: tuple[str, str], key: str, says: str) -> None:
    assert change[0] in CONFIG
    found = told(CONFIG.replace(*change))
    assert list(found) == [key] and says in found[key]


def test_a_device_without_its_runtime_is_told_unless_it_is_profiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xnnpack, "missing", lambda: "executorch is not installed")
    text = CONFIG + "devices: [{device: cpu-xnnpack}]\n"
    assert told(text) == {"devices.0.device": "cpu-xnnpack cannot be used here: executorch is not installed"}
    Path("runs/profiles/cpu-xnnpack").mkdir(parents=True)
    Path("runs/profiles/cpu-xnnpack/profile.yaml").touch()
    assert parse_pipeline(text, "p.yaml").devices[0].device == "cpu-xnnpack"


@pytest.mark.parametrize("text", ["[1, 2]", "3", "{1: 2}"])
def test_what_is_no_config_is_told(text: str) -> None:
    assert told(text)


def test_what_a_stage_refuses_is_named_by_its_key_in_the_file() -> None:
    said = in_file("p.yaml", "profile", InputError(Option("budget"), "2s is too short"))
    assert str(said) == "p.yaml: devices.budget: 2s is too short"
    advice = in_file("p.yaml", "train", InputError(Option("data"), f"give {Setting('data', 'encoding', 'latin-1')}"))
    assert str(advice) == "p.yaml: training.data: give encoding: latin-1"
    other = InputError("runs/p", "is damaged")
    assert in_file("p.yaml", "profile", other) is other


@pytest.mark.parametrize(("name", "says"), [("nowhere", "runs/nowhere: is not a run"),
                                            ("a", "a has 0 architectures of this space")])
def test_a_run_to_calibrate_with_has_to_exist(name: str, says: str, finished: Callable[[], None]) -> None:
    finished()
    found = told(CONFIG.replace("trials: 8", f"trials: 8, calibrate: {name}"))
    assert list(found) == ["search.calibrate"] and says in found["search.calibrate"]


def test_a_file_that_was_cut_off_is_told_in_the_words_of_yaml() -> None:
    assert told(CONFIG + "devices:") == {"devices": "nothing is not allowed: input should be a list"}


def test_an_unknown_task_is_reported_once() -> None:
    text = "schema_version: 1\nrun: a\nspace: lm-tiny\ntask: lmm\n"
    with pytest.raises(InputError) as caught:
        parse_pipeline(text, "a.yaml")
    assert [fault.key for fault in caught.value.faults] == ["task"]
