"""`nas profile`, `--check` and `nas latency` on a machine whose times are made up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import search_spaces
from hardware_profiles import LatencyModel, load_profile, shipped_devices
from hardware_profiles.provenance import ProfileWarning
from hardware_profiles.runtimes import torch_eager
from hardware_profiles.transports import ssh
from nas import api
from nas.cli import main
from nas.core.config import make_run_config
from nas.core.evaluation import prepare
from nas.core.prediction_quality import Quality, verdict
from nas.core.run_dir import RunDir, locked
from nas.core.timing.workloads import Workload
from nas.stages.profile.choice import draw_models
from nas.stages.profile.run import load_profiled_space
from nas.terminal.bar import WorkBar
from search_spaces import InputError, load_space
from supernet.train.recipe import Recipe
from tests.nas.stages.profile.made_up import (
    AT,
    DEVICE,
    made_up_machine,  # noqa: F401 - a fixture
    made_up_seconds,
    profile,
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """Where the profile that most tests start from is kept."""
    return tmp_path_factory.mktemp("kept") / "runs"


@pytest.fixture
def profiled(made_up, kept: Path) -> None:
    """The device is profiled."""
    if kept.exists():
        shutil.copytree(kept, "runs")
    else:
        assert profile() == 0
        shutil.copytree("runs", kept)


def test_a_profile_predicts_models_it_has_not_seen(profiled) -> None:
    assert profile("--check", "-n", "12") == 0
    saved = json.loads(Path("runs/profiles/made-up/check-prefill.json").read_text())
    assert saved["good"] and saved["overlap"] == 0 and saved["n"] == 12
    assert saved["predicted"]["mape"] < 0.03 and saved["predicted"]["mape"] <= saved["macs"]["mape"]


def test_a_machine_that_became_slower_does_not_make_a_profile_wrong(profiled, made_up, capsys) -> None:
    made_up["slower"] = 1.3
    assert profile("--check", "-n", "12") == 0
    saved = json.loads(Path("runs/profiles/made-up/check-prefill.json").read_text())
    assert saved["slowdown"] == pytest.approx(1.3, abs=0.01)
    assert saved["predicted"]["mape"] < 0.03 < 0.2 < saved["as_timed"]["mape"]
    assert "machine is 1.300x slower than at profiling time" in capsys.readouterr().out


def test_a_small_budget_measures_some_units_and_marks_the_rest(monkeypatch) -> None:
    monkeypatch.setattr("nas.stages.profile.selection.affordable", lambda *_: 40)
    assert profile() == 0
    table = LatencyModel.load("runs/profiles/made-up").table
    sources = [row.source for row in table.values()]
    assert sources.count("measured") == 40 and sources.count("interpolated") == len(sources) - 40 > 0
    for row in table.values():
        assert row.ms > 0 and row.low <= row.ms <= row.high


def test_a_second_space_reuses_the_units_it_knows(made_up) -> None:
    assert profile() == 0
    before = {key: row.ms for key, row in LatencyModel.load("made-up").table.items()}
    assert profile() == 0
    after = LatencyModel.load("made-up")
    assert {key: row.ms for key, row in after.table.items()} == before
    assert after.stored.spaces == ("lm-tiny",)


def test_only_what_this_call_measured_is_counted(capsys) -> None:
    rows = []
    for _ in range(2):
        capsys.readouterr()
        assert profile("--json") == 0
        rows += json.loads(capsys.readouterr().out)["phases"]
    first, second = rows
    assert first["n_measured"] > 0 == first["n_reused"] and first["timing_s"] > 0
    assert (second["n_measured"], second["n_reused"], second["timing_s"]) == (0, first["n_measured"], 0.0)


def test_bars_of_timing_end_complete(monkeypatch) -> None:
    """Also where all is timed long before the time is up, or was before."""
    made, honest = [], WorkBar.__init__

    def kept(self, *arguments, **options):
        honest(self, *arguments, **options)
        made.append(self)

    monkeypatch.setattr(WorkBar, "__init__", kept)
    for arguments in ((), (), ("--check", "-n", "6")):
        assert profile(*arguments) == 0
    tasks = [task for bar in made for task in bar.progress.tasks if task.description == "timing"]
    assert len(tasks) == 4 and all(task.finished for task in tasks)


def test_a_space_that_is_profiled_later_shifts_no_prediction(profiled, monkeypatch) -> None:
    archs = draw_models(load_space("lm-tiny"), 20, "before and after", avoid=set())
    before = LatencyModel.load("made-up").predict_many(archs)
    text = (Path(search_spaces.__file__).parent / "lm-tiny.yaml").read_text()
    Path("wide.yaml").write_text(text.replace("name: lm-tiny", "name: wide").replace("[48, 64]", "[64, 80]"))
    load = torch_eager.load

    def slower(module, inputs, options):
        run = load(module, inputs, options)
        return (lambda: 1.5 * run()) if type(module).__name__ == "_Whole" else run
    monkeypatch.setattr(torch_eager, "load", slower)
    assert main(["profile", "made-up.yaml", "--space", "wide.yaml", "--budget", "10m"]) == 0
    after = LatencyModel.load("made-up")
    assert after.predict_many(archs) == pytest.approx(before, rel=1e-4)
    assert list(after.stored.by_space) == ["lm-tiny", "wide"] and after.stored.calibration["prefill"].n == 16
    wide = [arch for arch in draw_models(load_space("wide.yaml"), 20, "slower", avoid=set()) if arch.width == 80]
    true = [1.5e3 * made_up_seconds(*Workload("prefill", arch).build(AT)) for arch in wide]
    assert np.abs(after.predict_many(wide) / np.array(true) - 1).mean() < 0.1


def test_stopped_it_keeps_what_it_measured_and_goes_on(monkeypatch) -> None:
    @contextmanager
    def stopped_after_some(*_):
        rounds = Path("runs/profiles/made-up/work/prefill-lm-tiny.jsonl")
        yield lambda: rounds.is_file() and len(rounds.read_text().splitlines()) >= 4
    with monkeypatch.context() as patch:
        patch.setattr("nas.terminal.progress.interruptible", stopped_after_some)
        assert profile() == 130
    rounds = Path("runs/profiles/made-up/work/prefill-lm-tiny.jsonl")
    kept = rounds.read_text().splitlines()
    assert profile() == 0
    assert rounds.read_text().splitlines()[: len(kept)][2:] == kept[2:]


def test_two_processes_do_not_work_on_one_profile(tmp_path: Path, capsys) -> None:
    folder = tmp_path / "runs/profiles/made-up"
    folder.mkdir(parents=True)
    code = ("import sys, time; from pathlib import Path; from nas.core.run_dir import locked\n"
            "with locked(Path(sys.argv[1]), 'profile'): print('held', flush=True); time.sleep(600)")
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        try:
            assert profile() == 2
            says = capsys.readouterr().err
            assert f"another process is using this profile (process {other.pid} on " in says
        finally:
            other.kill()
    with locked(folder, "profile"):  # a killed process leaves nothing locked
        assert f"process {os.getpid()} on " in (folder / ".lock").read_text()


def test_another_budget_goes_on_with_what_is_measured(monkeypatch) -> None:
    rounds = Path("runs/profiles/made-up/work/prefill-lm-tiny.jsonl")
    monkeypatch.setattr("nas.stages.profile.selection.affordable", lambda *_: 40)
    assert profile() == 0
    first = rounds.read_text().splitlines()
    monkeypatch.setattr("nas.stages.profile.selection.affordable", lambda *_: 30)
    assert profile("--budget", "9m") == 0
    assert [line for line in rounds.read_text().splitlines() if "round" in line] == [
        line for line in first if "round" in line]
    monkeypatch.setattr("nas.stages.profile.selection.affordable", lambda *_: 50)
    assert profile("--budget", "11m") == 0
    assert rounds.read_text().splitlines()[2 : len(first)] == first[2:]
    table = LatencyModel.load("made-up").table
    assert sum(row.source == "measured" for row in table.values()) == 50


def test_another_length_needs_another_folder(profiled, capsys) -> None:
    Path("made-up.yaml").write_text(DEVICE + "length: 64\n")
    assert profile() == 2
    assert "was measured at length 128 (now 64)" in capsys.readouterr().err
    assert profile("--out", "elsewhere") == 0


def test_latency_of_an_architecture_part_by_part(profiled, capsys) -> None:
    capsys.readouterr()
    assert main(["latency", "made-up", "lm-tiny", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert sum(part["ms"] for part in data["parts"]) + data["overhead_ms"] == pytest.approx(data["ms"])
    assert main(["latency", "made-up", "lm-tiny", "--breakdown"]) == 0
    assert "decoder.0.mixer" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "says"), [
    (["profile", "fridge", "--space", "lm-tiny"], "'fridge' is unknown; allowed"),
    (["profile", "made-up.yaml"], "--space: is missing"),
    (["profile", "made-up.yaml", "--space", "lm-tiny", "--budget", "soon"], "'soon' is not allowed; allowed: a time"),
    (["profile", "made-up.yaml", "--space", "lm-tiny", "--phase", "warm"], "allowed: prefill, decode"),
    (["profile", "made-up.yaml", "--space", "encoder-small", "--phase", "decode"], "do not decode"),
    (["profile", "made-up.yaml", "--space", "lm-tiny", "--check"], "has no profile"),
    (["latency", "fridge", "lm-tiny"], "is unknown: not a measured profile"),
    (["profile", "made-up.yaml", "--space", "lm-tiny", "--from", "none.csv"], "none.csv: cannot be read"),
])
def test_mistakes_get_one_sentence(arguments, says: str, capsys) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert says in err and len(err.strip().splitlines()) == 1


def test_an_estimated_device_is_marked_everywhere(capsys) -> None:
    assert main(["profile", "raspberry-pi-5-estimated", "--space", "lm-tiny"]) == 0
    assert "estimated from a specification: nothing was measured" in capsys.readouterr().out
    assert main(["latency", "raspberry-pi-5-estimated", "lm-tiny", "--breakdown"]) == 0
    out = capsys.readouterr().out
    assert "estimated from a specification" in out and out.count("estimated") > 5
    assert load_profile("raspberry-pi-5-estimated").estimated
    assert LatencyModel.load("raspberry-pi-5-estimated").sources(load_space("lm-tiny").largest()) == {"estimated"}


def test_devices_say_what_is_available(capsys) -> None:
    assert main(["devices", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["devices"]}
    assert list(rows.values()) == api.devices()
    assert rows["cpu"]["available"] and rows["a100-estimated"]["estimated"]
    assert rows["cuda"]["available"] or rows["cuda"]["why_not"]
    assert rows["raspberry-pi-4"]["available"] is None and rows["raspberry-pi-4"]["state"] == "not checked"
    assert main(["devices"]) == 0
    assert "nas devices --check" in capsys.readouterr().out


def test_devices_behind_ssh_are_contacted_when_asked_for(monkeypatch, capsys) -> None:
    asked = {}

    def check(self, runtime=None):
        asked[self.device_name] = self.settings.connect_timeout
        if self.device_name == "jetson-orin":
            raise InputError(self.device_name, "jetson.local cannot be reached (timed out); is it on?")

    monkeypatch.setattr(ssh.SshTransport, "check", check)
    assert main(["devices", "--check", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["devices"]}
    assert set(asked) == {"jetson-orin", "raspberry-pi-4"} and max(asked.values()) <= 5
    assert rows["raspberry-pi-4"]["state"] == "reached" and rows["raspberry-pi-4"]["available"] is True
    assert rows["jetson-orin"]["state"] == "not reached" and "timed out" in rows["jetson-orin"]["why_not"]


def test_a_device_that_was_profiled_here_is_listed_and_profiled_again_by_its_name(profiled, capsys) -> None:
    capsys.readouterr()
    assert main(["devices", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["devices"]}
    assert rows["made-up"]["state"] == "measured" and not rows["made-up"]["shipped"]
    assert main(["profile", "made-up", "--budget", "1s"]) == 0


@pytest.mark.parametrize("columns", ["80", "100", "160"])
def test_names_of_devices_are_whole_in_a_narrow_terminal(columns: str, monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["devices"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= int(columns)
    words = out.split()
    for name in shipped_devices():
        assert name in words and load_profile(name).runtime in words


def outcome(n: int, mape: float, within: float, tau: float, phase: str = "prefill") -> str:
    return verdict(phase, n, Quality(mape, within, tau, None), 0.01)


def test_a_verdict_needs_enough_models() -> None:
    assert outcome(6, 0.028, 1.0, 0.867) == "too few models"  # one swapped pair of fifteen
    assert outcome(50, 0.028, 1.0, 0.867) == "off"
    assert outcome(50, 0.028, 1.0, 0.96) == outcome(12, 0.028, 1.0, 0.96) == "good"
    assert outcome(6, 0.028, 1.0, 1.0) == "too few models"
    assert outcome(6, 0.3, 0.0, 0.2) == "off"
    assert outcome(12, 0.05, 0.5, 0.1, "decode") == "good"


def test_a_check_of_few_models_says_what_it_lacks(profiled, capsys) -> None:
    capsys.readouterr()
    assert profile("--check", "-n", "4") == 0
    assert "verdict: too few models (only 4 models; 50 are needed: run with --check -n 50)" in capsys.readouterr().out
    saved = json.loads(Path("runs/profiles/made-up/check-prefill.json").read_text())
    assert saved["verdict"] == "too few models" and not saved["good"]


def test_a_device_whose_times_do_not_depend_on_the_model_is_refused(monkeypatch, capsys) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(torch_eager, "load", lambda *_: lambda: 0.005 * (1 + 0.02 * rng.random()))
    assert profile() == 2
    assert "does not depend on the architecture" in capsys.readouterr().err
    assert not Path("runs/profiles/made-up/profile.yaml").exists()


@pytest.mark.parametrize(("change", "says"), [
    ("name: made-up", "name made-up (now other)"), ("threads: 2", "threads 1 (now 2)"),
])
def test_prices_of_another_device_do_not_enter_a_table(change: str, says: str, capsys) -> None:
    assert profile("--out", "here") == 0
    text = DEVICE.replace(change, "name: other") if change.startswith("name") else DEVICE + change + "\n"
    Path("made-up.yaml").write_text(text)
    assert profile("--out", "here") == 2
    assert says in capsys.readouterr().err


def test_another_version_of_the_runtime_needs_another_folder(profiled, monkeypatch, capsys) -> None:
    monkeypatch.setattr(torch_eager, "versions", lambda: {"torch": "99"})
    assert profile() == 2
    assert "(now 99)" in capsys.readouterr().err


def test_a_profile_of_another_version_warns_whoever_loads_it_and_the_command_once(profiled, monkeypatch, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LatencyModel.load("made-up")
    monkeypatch.setattr(torch_eager, "versions", lambda: {"torch": "99"})
    with pytest.warns(ProfileWarning, match="profile made-up: measured with torch .*; here it is 99") as told:
        LatencyModel.load("made-up")
    assert len(told) == 1 and told[0].filename == __file__
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["latency", "made-up", "lm-tiny"]) == 0
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count("here it is 99") == 1


def test_a_check_is_measured_anew_each_time(profiled, made_up) -> None:
    counts = []
    for _ in range(2):
        before = made_up["n"]
        assert profile("--check", "-n", "6") == 0
        counts.append(made_up["n"] - before)
    assert counts[0] == counts[1] > 0


def test_models_that_went_into_a_profile_are_remembered(profiled) -> None:
    stored = LatencyModel.load("made-up").stored
    assert len(stored.seen) == 8 == stored.calibration["prefill"].n


def test_whole_models_are_sampled_more_often_than_units(profiled) -> None:
    lines = Path("runs/profiles/made-up/work/prefill-lm-tiny.jsonl").read_text().splitlines()
    names = [name for name, _ in next(line for line in map(json.loads, lines) if "round" in line)["seconds"]]
    counts = {name: names.count(name) for name in names}
    assert sorted(counts[name] for name in counts if "-model-" in name)[:7] == [3] * 7  # one more is the reference
    assert {counts[name] for name in counts if "-model-" not in name} == {1}


def test_a_profile_is_found_by_the_file_of_its_device(capsys) -> None:
    Path("made-up.yaml").write_text(DEVICE.replace("name: made-up", "name: '../a b; $(touch canary)'"))
    assert profile() == 0
    assert main(["latency", "made-up.yaml", "lm-tiny"]) == 0
    assert [path.name for path in Path("runs/profiles").iterdir()] == ["a-b-touch-canary"]
    assert not Path("canary").exists()


def test_an_unmeasured_phase_is_said_before_anything_is_timed(profiled, made_up, capsys) -> None:
    before = made_up["n"]
    assert profile("--check", "--phase", "decode") == 2
    assert "has no decode latencies" in capsys.readouterr().err and made_up["n"] == before


def test_a_device_that_cannot_be_reached_is_told_before_anything_is_compiled(monkeypatch, capsys) -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    Path("far.yaml").write_text("schema_version: 1\nname: far\nkind: cpu\nruntime: onnx-runtime\n"
                                "transport: {kind: ssh, host: nobody@127.0.0.1, port: 1}\n")
    monkeypatch.setattr("nas.core.timing.compiling.Compiler.compile_all", lambda *_: pytest.fail("it compiled"))
    assert main(["profile", "far.yaml", "--space", "lm-tiny"]) == 2
    assert "far: " in capsys.readouterr().err


def test_the_space_of_a_run_may_be_given_by_its_name() -> None:
    run = RunDir.create("mine", make_run_config("lm-tiny", "lm", {"vocab_size": 300}, Recipe()))
    vocab = prepare(run).space.vocab_size
    assert [load_profiled_space(name).vocab_size for name in ("mine", "runs/mine")] == [vocab, vocab]
    RunDir.create("lm-tiny", run.config())
    assert load_profiled_space("lm-tiny").vocab_size != vocab, "shipped spaces come first"
