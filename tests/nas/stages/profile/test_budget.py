"""`nas profile --budget`: the budget covers everything, also compiling. The clock of these tests is made up."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hardware_profiles.device import load_profile
from hardware_profiles.protocol import Protocol, due
from hardware_profiles.runtimes import torch_eager
from nas.cli import main
from nas.core.durations import parse_time
from nas.core.progress import StageProgress
from nas.core.timing.compiling import Compiled, Compiler
from nas.core.timing.workloads import Workload
from nas.stages.profile.budget import Budget, PhaseTime
from nas.stages.profile.profiling import conditions_of
from nas.stages.profile.request import ProfileRequest
from nas.stages.profile.run import run, why_too_short
from search_spaces import InputError, load_space
from tests.nas.stages.profile.made_up import DEVICE, made_up_machine  # noqa: F401 - a fixture

LOAD_S, SLOW = 0.5, 20
"""Seconds that preparing a workload takes, and how many times slower than in other tests models run."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, made_up: Any) -> dict[str, float]:
    """A clock that only preparing and running workloads move."""
    load, now = torch_eager.load, {"s": 0.0}

    def slow(module: Any, inputs: Any, options: Any) -> Callable[[], float]:
        now["s"] += LOAD_S
        run = load(module, inputs, options)

        def timed() -> float:
            seconds = SLOW * run()
            now["s"] += seconds
            return seconds
        return timed

    monkeypatch.setattr(torch_eager, "load", slow)
    fake = SimpleNamespace(monotonic=lambda: now["s"], perf_counter=lambda: now["s"])
    for module in ("nas.core.timing.session", "nas.stages.profile.profiling", "nas.stages.profile.budget",
                   "nas.stages.profile.selection", "nas.stages.profile.memory", "hardware_profiles.protocol"):
        monkeypatch.setattr(f"{module}.time", fake)
    Path("made-up.yaml").write_text(DEVICE.replace("most_rounds: 3", "most_rounds: 400"), "utf-8")
    return now


def profile(capsys: Any, budget: str, out: str, expected: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    code = main(["profile", "made-up.yaml", "--space", "lm-tiny", "--budget", budget, "--out", out, "--json"])
    assert code == expected
    found = capsys.readouterr()
    return dict(json.loads(found.out)) if expected == 0 else {"says": found.err.splitlines()[-1]}


def test_a_budget_holds_for_everything_and_a_larger_one_measures_more(clock: dict[str, float], capsys: Any) -> None:
    measured = []
    for seconds in (30, 45, 60, 120):
        start = clock["s"]
        found = profile(capsys, f"{seconds}s", f"p{seconds}")
        assert clock["s"] - start <= 1.2 * seconds
        (phase,) = found["phases"]
        assert phase["compiling_s"] < seconds and phase["n_models"] == 8
        measured.append(phase["n_measured"])
    assert measured == sorted(measured) and measured[0] < measured[2] < phase["n_units"] == measured[-1] == 92


def test_a_budget_below_the_least_is_refused_with_the_least(clock: dict[str, float], capsys: Any) -> None:
    says = profile(capsys, "5s", "p", expected=2)["says"]
    assert "--budget: 5s is too short: profiling made-up for lm-tiny takes at least about " in says
    assert "including compilation" in says and not Path("p/profile.yaml").exists()
    least = says.split("at least about ")[1].split()[0]
    assert "5s is too short" in profile(capsys, "5s", "p", expected=2)["says"], "a refused call begins nothing"
    start = clock["s"]
    profile(capsys, least, "p")
    assert 5 < clock["s"] - start <= 1.2 * parse_time(least)


class Notes(StageProgress):
    """The notes of a stage."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def test_a_budget_below_the_least_is_extended_on_request(clock: dict[str, float]) -> None:
    notes, start = Notes(), clock["s"]
    run(ProfileRequest("made-up.yaml", "lm-tiny", 5.0, Path("p"), extend=True), notes)
    assert notes.texts[0].startswith("budget: 5s is too short: profiling made-up for lm-tiny takes at least about ")
    assert notes.texts[0].endswith("; extended to this time") and Path("p/profile.yaml").is_file()
    least = parse_time(notes.texts[0].split("at least about ")[1].split()[0])
    assert 5 < clock["s"] - start <= 1.2 * least


def test_the_least_is_known_before_a_profile(clock: dict[str, float], capsys: Any) -> None:
    device, space = load_profile("made-up.yaml"), load_space("lm-tiny")
    least_s, why = why_too_short(device, space, 5.0)
    assert f"--budget: {why}; compiled" in profile(capsys, "5s", "p", expected=2)["says"]
    assert why_too_short(device, space, least_s) == (pytest.approx(least_s), "")
    assert sorted(path.name for path in Path().iterdir()) == ["made-up.yaml"], "nothing is kept"


def test_a_profile_is_not_refused_after_its_first_phase() -> None:
    budget = Budget(10.0, start=0.0)
    with pytest.raises(InputError, match="10s is too short"):
        PhaseTime(budget, 1.0, 1).check_least(60.0, 0.0, "cpu for lm-tiny")
    at = PhaseTime(budget, 0.5, 1, may_refuse=False)
    assert "extended to this time" in at.check_least(60.0, 0.0, "cpu for lm-tiny") and budget.seconds >= 60
    assert not at.check_least(1.0, 0.0, "cpu for lm-tiny")


def test_what_a_stopped_call_spent_counts(clock: dict[str, float], capsys: Any,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def stopped_at(*_: object) -> Any:
        yield lambda: clock["s"] > 40

    with monkeypatch.context() as patch:
        patch.setattr("nas.terminal.progress.interruptible", stopped_at)
        profile(capsys, "60s", "p", expected=130)
    assert json.loads(Path("p/work/budget-lm-tiny.json").read_text("utf-8"))["spent_s"] == pytest.approx(40, abs=2)
    start = clock["s"]
    resumed = profile(capsys, "60s", "p")["phases"][0]
    assert clock["s"] - start < 45, "the workloads are loaded again, and the rest of the time is for timing"
    assert 12 <= resumed["n_measured"] < 92
    again = profile(capsys, "60s", "p")["phases"][0]
    assert (again["n_measured"], again["timing_s"]) == (0, 0.0)
    assert profile(capsys, "10m", "p")["phases"][0]["n_measured"] > 0


def test_the_plan_says_what_the_time_is_for(clock: dict[str, float], capsys: Any) -> None:
    assert main(["profile", "made-up.yaml", "--space", "lm-tiny", "--budget", "60s"]) == 0
    out = capsys.readouterr().out
    assert "s of the budget left: about " in out and " of 92 units are measured" in out


def test_the_file_of_another_profile_does_not_count(tmp_path: Path) -> None:
    Budget(9.0, tmp_path / "b.json", "a").save()
    known = json.loads((tmp_path / "b.json").read_text("utf-8"))
    (tmp_path / "b.json").write_text(json.dumps({**known, "spent_s": 5.0}), "utf-8")
    assert Budget(9.0, tmp_path / "b.json", "a").resumed and Budget(9.0, tmp_path / "b.json", "a").before_s == 5.0
    assert not Budget(9.0, tmp_path / "b.json", "other code").resumed


def test_an_earlier_choice_holds_until_there_is_more_time(tmp_path: Path) -> None:
    Budget(9.0, tmp_path / "b.json", "a").choose("prefill", ["x", "y"])
    assert Budget(9.0, tmp_path / "b.json", "a").earlier("prefill") == ["x", "y"]
    assert Budget(10.0, tmp_path / "b.json", "a").earlier("prefill") is None
    assert Budget(9.0, tmp_path / "b.json", "a").earlier("decode") is None


def test_fewer_rounds_do_once_the_time_is_spent() -> None:
    rounds = [{"round": i, "seconds": [["a", 1.0], ["b", 1.0]], "spent_s": 1.0} for i in range(5)]
    assert due(["a", "b"], "a", Protocol(budget_s=9.0, least_rounds=10), rounds[:4]) == ["a", "b"]
    assert due(["a", "b"], "a", Protocol(budget_s=3.0, least_rounds=10), rounds[:4]) == ["a", "b"]
    assert due(["a", "b"], "a", Protocol(budget_s=3.0, least_rounds=10, late_rounds=4), rounds[:3]) == ["a", "b"]
    assert due(["a", "b"], "a", Protocol(budget_s=3.0, least_rounds=10, late_rounds=4), rounds[:4]) == []


class Now:
    """Processes that are done at once."""

    def submit(self, function: Callable[..., Compiled], workload: Workload) -> Future[Compiled]:
        future: Future[Compiled] = Future()
        future.set_result(function(workload))
        return future


def test_compiling_ends_when_its_time_is_spent_and_known_files_cost_nothing(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device, space = load_profile("cpu-onnxruntime"), load_space("lm-tiny")
    monkeypatch.setattr("hardware_profiles.runtimes.onnx_runtime.versions", dict)
    monkeypatch.setattr("hardware_profiles.runtimes.onnx_runtime.compile",
                        lambda module, inputs, path, options: Path(path).write_text("") and {} or {})
    compiler = Compiler(device, conditions_of(device, space), tmp_path)
    workloads, asked = [Workload("prefill", width) for width in (0, 8, 16, 24, 32)], list[int]()

    def one_more() -> bool:
        asked.append(1)
        return len(asked) < 2

    new: list[Compiled | None] = []
    found = compiler.compile_all(workloads, new.append, lambda: False, one_more, 2, Now())  # type: ignore[arg-type]
    assert set(found) == {each.name for each in workloads[:3]}, "the first two in any case, and one that has time"
    assert None not in new
    new.clear()
    again = compiler.compile_all(workloads, new.append, lambda: False, lambda: False, 0, Now())  # type: ignore[arg-type]
    assert set(again) == set(found) and new == [None] * 3
