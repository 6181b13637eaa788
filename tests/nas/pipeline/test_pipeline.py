"""All stages of a config: done once, gone on with, done anew where something changed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hardware_profiles.runtimes import torch_eager
from nas.core.run_dir import RunDir
from nas.core.stopping import Stopped
from nas.pipeline import stages
from nas.pipeline.reading import parse_pipeline
from nas.pipeline.record import PipelineRecord
from nas.pipeline.run import PlannedStage, _do
from nas.pipeline.stages import STAGES, with_dependants
from tests.nas.runs import nas, refused
from tests.nas.stages.profile.made_up import made_up_seconds

DEVICE = """
{schema_version: 1, name: here, description: a machine of made-up times, kind: cpu, runtime: torch-eager,
 phases: [prefill], timing: {least_rounds: 3, most_rounds: 3, calibration: 8, copies: 2, memory: false}}
"""
CONFIG = """
schema_version: 1
run: p
space: space.yaml
task: lm
data: {train: text.txt, vocab_size: '60'}
training: {steps: 4, batch_size: 2, warmup: 0, lr: 0.01, evaluate_limit: 4, n_random: 1, device: cpu}
search: {trials: 8, limit: 4}
pick: {knee: true}
retrain: {training: {steps: 3}}
"""


@pytest.fixture
def config(here: Path) -> Path:
    path = Path("p.yaml")
    path.write_text(CONFIG, "utf-8")
    return path


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, config: Path) -> str:
    """A device whose times follow from what is run; gives a config that names it."""
    monkeypatch.setattr(torch_eager, "load", lambda module, inputs, options: partial(float, made_up_seconds(module,
                                                                                                            inputs)))
    monkeypatch.setattr("nas.stages.profile.profiling.measurable", lambda _: False)
    Path("here.yaml").write_text(DEVICE, "utf-8")
    text = CONFIG + "devices: [{device: here.yaml, budget: 1m, check: 4}]\n"
    config.write_text(text, "utf-8")
    return text


def stage_lines(out: str) -> dict[str, str]:
    lines = [line.split("] ", 1)[1] for line in out.splitlines() if line.startswith("[") and "/" in line.split("]")[0]]
    return dict(line.split(": ", 1) for line in lines)


def made(run: str = "p") -> dict[str, bytes]:
    """Everything that has to be the same however often a pipeline was killed; measured times are not."""
    folder = Path("runs", run)
    weights = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("model.safetensors")}
    return {**weights, **{name: (folder / name).read_bytes() for name in ("supernet.safetensors", "trials.csv")}}


def test_everything_is_done_once_and_then_nothing(config: Path, device: str, capsys: Any) -> None:
    code, out, err = nas(capsys, "run", "p.yaml")
    assert (code, err) == (0, ""), err
    assert set(stage_lines(out).values()) == {"running"} and Path("runs/p/report.html").is_file()
    subnets = sorted(path.name for path in Path("runs/p/subnets").iterdir() if not path.name.startswith("."))
    assert len(subnets) == 2 and subnets[1] == f"{subnets[0]}-retrained"
    facts = json.loads(Path("runs/p/subnets", subnets[1], "metrics.json").read_text("utf-8"))
    assert facts["measured"] and [each["stage"] for each in facts["made"]] == ["extract", "retrain"]
    before = made()
    code, out, _ = nas(capsys, "run", "p.yaml")
    assert code == 0 and set(stage_lines(out).values()) == {"skipped, already done"} and made() == before
    data = json.loads(nas(capsys, "run", "p.yaml", "--dry-run", "--json")[1])
    assert [row["does"] for row in data["plan"]] == ["done"] * len(data["plan"])

    config.write_text(device.replace("trials: 8", "trials: 9"), "utf-8")
    code, out, err = nas(capsys, "run", "p.yaml")
    told = stage_lines(out)
    assert (code, err) == (0, "")
    assert {name for name, does in told.items() if does == "skipped, already done"} == {"prepare", "profile", "train"}
    assert len(Path("runs/p/trials.csv").read_text("utf-8").splitlines()) == 10
    config.write_text(device.replace("steps: 4", "steps: 5"), "utf-8")
    assert "steps is 4 in the run, requested: 5" in refused(capsys, "run", "p.yaml")
    assert nas(capsys, "run", "p.yaml", "--from", "prepare")[0] == 0
    assert Path("runs/p-old-1/supernet.safetensors").is_file()


def test_a_budget_that_is_too_short_is_extended_and_no_stage_names_the_next_command(
        config: Path, device: str, capsys: Any) -> None:
    config.write_text(device.replace("budget: 1m, check: 4", "budget: 0.01s"), "utf-8")
    planned = nas(capsys, "run", "p.yaml", "--dry-run")[1]
    assert "devices.0.budget: 0.01s is too short: profiling here for toy takes at least about " in planned
    code, out, err = nas(capsys, "run", "p.yaml")
    assert code == 0 and "interpolated unit latencies" in err, err
    assert "budget: 0.01s is too short: profiling here for toy takes at least about " in out
    for hint in ("nas evaluate", "nas rank", "nas search", "nas retrain", "nas export"):
        assert hint not in out


def test_another_run_keeps_the_prices_that_are_there(config: Path, device: str, capsys: Any) -> None:
    assert nas(capsys, "run", "p.yaml")[0] == 0
    table = Path("runs/profiles/here/table.csv").read_bytes()
    config.write_text(device.replace("run: p", "run: q").replace("budget: 1m", "budget: 2m"), "utf-8")
    code, out, _ = nas(capsys, "run", "p.yaml")
    assert code == 0 and "here.yaml was already profiled for this space, and the profile is kept" in out
    assert Path("runs/profiles/here/table.csv").read_bytes() == table
    assert nas(capsys, "search", "p", "--more", "2")[0] == 0


def test_estimated_devices_are_not_measured_on(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = next(stage for stage in STAGES if stage.name == "measure")
    estimated = parse_pipeline(CONFIG + "devices: [{device: a100-estimated}]\n", "p.yaml")
    both = parse_pipeline(CONFIG + "devices: [{device: a100-estimated}, {device: cpu}]\n", "p.yaml")
    assert not measure.wanted(estimated) and measure.wanted(both)
    asked: list[Any] = []

    def stopped(request: Any, progress: Any) -> None:
        asked.extend(request.device)
        raise Stopped

    monkeypatch.setattr("nas.stages.measure.run.run", stopped)
    with pytest.raises(Stopped):
        measure.do(stages.PipelineState(both))
    assert asked == ["cpu"]


def test_a_stage_done_anew_takes_along_what_depends_on_it():
    assert with_dependants("search") == ["search", "extract", "retrain", "export", "measure", "report"]
    assert with_dependants("profile") == ["profile", "search", "extract", "retrain", "plain", "export", "measure",
                                          "report"]
    assert with_dependants("report") == ["report"]
    order = [stage.name for stage in STAGES]
    assert all(order.index(needed) < place for place, stage in enumerate(STAGES) for needed in stage.needs)


def test_a_killed_pipeline_ends_as_one_that_was_not(config: Path) -> None:
    """Killed at the beginning and at the end of stages; every run is a process of its own, the undisturbed one too."""
    code = """
import os, signal, sys
import nas.pipeline.run, torch._dynamo  # once for all runs, which are forked
from nas.cli import main
from nas.pipeline import stages

def run(config, name, when):
    for stage in stages.STAGES:
        def do(work, honest=stage.do):
            if when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            honest(work)
            os.kill(os.getpid(), signal.SIGKILL)
        if stage.name == name:
            stage.do = do
    return main(["run", config])

for moment in sys.argv[1:]:
    process = os.fork()
    if process == 0:
        os._exit(run(*moment.split("/")))
    print("exit code", os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""
    Path("q.yaml").write_text(CONFIG.replace("run: p", "run: q"), "utf-8")
    killed = ("train/after", "search/before", "search/after", "extract/after", "retrain/after")
    moments = ["q.yaml/never/", *(f"p.yaml/{moment}" for moment in killed), "p.yaml/never/"]
    done = subprocess.run([sys.executable, "-c", code, *moments], capture_output=True, text=True, timeout=600,
                          env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])})
    codes = [int(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("exit code")]
    assert codes == [0, *[-signal.SIGKILL] * len(killed), 0], done.stderr
    assert made() == made("q")


def test_what_a_killed_stage_has_made_is_archived_when_its_settings_change(config: Path) -> None:
    work = stages.PipelineState(parse_pipeline(CONFIG, "p.yaml"))
    folder = work.run.path / "subnets"
    (folder / "of-the-user").mkdir(parents=True)

    def planned(does: Any, inputs: str, last: str) -> PlannedStage:
        def do(work: stages.PipelineState) -> list[str]:
            for name in ("first", last):
                (folder / name).mkdir()
                if name == "killed":
                    raise KeyboardInterrupt
            return [str(folder / "first"), str(folder / last)]

        undo = next(stage for stage in STAGES if stage.name == "extract").undo
        return PlannedStage(stages.Stage("extract", do, undo=undo), inputs, does)

    with pytest.raises(KeyboardInterrupt):
        _do(planned("run", "a", "killed"), PipelineRecord(work.run.path), work)
    record = PipelineRecord(work.run.path)
    record.again(["extract"])
    _do(planned("run again", "b", "second"), record, work)
    assert work.subnet_names() == ["first", "of-the-user", "second"]
    assert (folder / "first-old-1").is_dir() and (folder / "killed-old-1").is_dir()


def test_ctrl_c_says_how_to_go_on(config: Path, capsys: Any, monkeypatch: Any) -> None:
    def stopped(*rest: Any) -> None:
        raise Stopped

    monkeypatch.setattr(next(stage for stage in STAGES if stage.name == "train"), "do", stopped)
    code, _, err = nas(capsys, "run", "p.yaml")
    assert code == 130 and "resume with: nas run p.yaml" in err
    monkeypatch.undo()


@pytest.mark.parametrize(("change", "says"), [
    (("task: lm", "task: poetry"), "unknown 'poetry'"),
    (("trials: 8", "trials: none"), "trials"),
    (("steps: 4", "stepps: 4"), "stepps"),
    (("run: p", "runn: p"), "runn: unknown key"),
    (("pick: {knee: true}", "pick: {knee: true, top: 2}"), "cannot be combined"),
    (("search: {trials: 8", "search: {max: [params=lots], trials: 8"), "lots"),
    (("space: space.yaml", "space: nowhere.yaml"), "nowhere.yaml"),
])
def test_a_wrong_config_is_refused_before_anything_is_made(config: Path, capsys: Any, change: tuple[str, str],
                                                           says: str) -> None:
    config.write_text(CONFIG.replace(*change), "utf-8")
    assert says in refused(capsys, "run", "p.yaml")
    assert not Path("runs").exists()


def test_init_writes_a_config_that_can_be_run(here: Path, capsys: Any) -> None:
    code, out, err = nas(capsys, "init", "--yes")
    assert (code, err) == (0, "") and "nas run pipeline.yaml" in out
    code, out, err = nas(capsys, "run", "pipeline.yaml", "--dry-run")
    assert (code, err) == (0, "") and len(re.findall(r"^\w+ +run ", out, re.M)) == 8
    assert "runs" not in out.replace("nas run", "")
    assert not Path("runs").exists()
    assert "exists; name another" in refused(capsys, "init", "--yes")
    assert "--from: 'dinner' is not a stage" in refused(capsys, "run", "pipeline.yaml", "--from", "dinner")
    assert not RunDir("first").path.exists()
