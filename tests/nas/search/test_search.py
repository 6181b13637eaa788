"""Searches in one process: repeatable, killed and resumed, limited, continued, priced for another device."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nas.run_dir import RunDir
from nas.search.samplers._registry import names
from nas.search.stage import Search
from tests.nas.runs import nas, refused
from tests.nas.search.made_up import write_profile

OPTIONS = ("--device", "one", "--trials", "24", "--limit", "12", "--batch-size", "1")


def rows(run: str = "a") -> list[dict[str, str]]:
    with Path("runs", run, "trials.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def searched(capsys: Any, *more: str) -> str:
    code, out, err = nas(capsys, "search", "a", *OPTIONS, *more)
    assert (code, err) == (0, "")
    return out


@pytest.mark.parametrize("sampler", [name for name in names() if name != "gp"])
def test_every_sampler_finds_the_front_of_what_it_saw(searchable: RunDir, capsys: Any, sampler: str) -> None:
    searched(capsys, "--sampler", sampler)
    found = [row for row in rows() if row["state"] == "COMPLETE"]
    assert len(found) == 24
    whole = [(float(row["loss"]), float(row["latency:one"]), row["key"]) for row in found if row["estimated"] == "0"]
    best = {key for loss, ms, key in whole
            if not any(a <= loss and b <= ms and (a, b) != (loss, ms) for a, b, _ in whole)}
    data = json.loads(Path("runs/a/pareto.json").read_text("utf-8"))
    assert set(data["front"]) <= best
    points = {(loss, ms) for loss, ms, key in whole if key in data["front"]}
    assert points == {(loss, ms) for loss, ms, key in whole if key in best}
    assert data["hypervolume"] == sorted(data["hypervolume"])


def test_gp_proposes_after_its_start(searchable: RunDir, capsys: Any) -> None:
    code, _, err = nas(capsys, "search", "a", "--sampler", "gp", "--trials", "14", "--limit", "6")
    assert (code, err) == (0, "") and len(rows()) == 14


def test_the_same_seed_gives_the_same_trials_in_another_process(searchable: RunDir, capsys: Any) -> None:
    searched(capsys)
    first = Path("runs/a/trials.csv").read_bytes()
    command = [sys.executable, "-m", "nas", "search", "a", *OPTIONS, "--fresh"]
    for seed in ("1", "2"):
        for left in Path("runs/a/evaluations").glob("*"):
            left.unlink()
        subprocess.run(command, check=True, capture_output=True, timeout=600,
                       env={**os.environ, "PYTHONHASHSEED": seed})
        assert Path("runs/a/trials.csv").read_bytes() == first
    searched(capsys, "--fresh", "--seed", "1")
    assert Path("runs/a/trials.csv").read_bytes() != first
    assert len(list(Path("runs/a/searches").iterdir())) == 3


def test_a_killed_search_goes_on_as_if_it_had_not_been(searchable: RunDir, capsys: Any) -> None:
    """Killed between trials, in the middle of a journal's line, and between a journal's line and the table's."""
    searched(capsys)
    whole = Path("runs/a/trials.csv").read_bytes()
    command = [sys.executable, "-m", "tests.nas.search.killed", "search", "a", *OPTIONS]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    first, rng = True, random.Random(0)
    for moment in ("line", "trial", "table", "line"):
        killed = subprocess.run([*command, *(["--fresh"] if first else [])], capture_output=True, timeout=600,
                                env={**environment, "KILL": f"{moment}/{rng.randrange(2, 6)}"})
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        first = False
    code, out, err = nas(capsys, "search", "a")
    assert (code, err) == (0, "") and "going on after" in out
    assert Path("runs/a/trials.csv").read_bytes() == whole
    made = Search(searchable, _config())
    made.open_study()
    assert all(trial.state.is_finished() for trial in made.study.memory.trials)


def _config() -> Any:
    from nas.search.config import read_search

    return read_search(Path("runs/a/search.yaml"))


def test_ctrl_c_stops_between_two_trials(searchable: RunDir, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Search.accept
    count = 0

    def accept(self: Search, *arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return honest(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Search, "accept", accept)
        code, _, err = nas(capsys, "search", "a", *OPTIONS)
    assert code == 130 and "go on with: nas search a" in err
    assert nas(capsys, "search", "a")[0] == 0 and len(rows()) == 24


def test_more_goes_on_and_another_question_is_refused(searchable: RunDir, capsys: Any) -> None:
    searched(capsys)
    before = rows()
    code, out, _ = nas(capsys, "search", "a", "--more", "6")
    assert code == 0 and "going on after 24 of 30 trials" in out
    assert rows()[:24] == before and len(rows()) == 30
    says = refused(capsys, "search", "a", "--seed", "3", "--device", "two")
    assert "seed is 0 in the search, asked for 3" in says and "start anew with --fresh" in says
    assert "devices is one in the search, asked for two" in says
    assert "has not been searched; --more goes on" in _refused_after_moving(capsys)


def _refused_after_moving(capsys: Any) -> str:
    Path("runs/a/search.yaml").rename("search.yaml")
    return refused(capsys, "search", "a", "--more", "3")


def test_several_devices_are_searched_at_once(searchable: RunDir, capsys: Any) -> None:
    code, out, _ = nas(capsys, "search", "a", "--device", "one", "--device", "two", "--trials", "20", "--limit", "6")
    assert code == 0 and "front on one" in out and "front on two" in out
    data = json.loads(nas(capsys, "pareto", "a", "--json")[1])
    for name, found in data["fronts"].items():
        points = sorted((each["costs"][f"latency:{name}"], each["metrics"]["loss"]) for each in found)
        assert points and all(a[1] > b[1] for a, b in zip(points, points[1:]))


def test_limits_hold_for_every_evaluated_architecture(searchable: RunDir, capsys: Any) -> None:
    searched(capsys, "--max", "params=1.4k", "--sampler", "random")
    found = rows()
    evaluated = [row for row in found if row["state"] == "COMPLETE"]
    assert len(evaluated) == 24 and all(float(row["params"]) <= 1400 for row in evaluated)
    missed = [row for row in found if row["state"] == "PRUNED"]
    assert missed and all(float(row["params"]) > 1400 and row["reason"] == "violates a limit" for row in missed)
    assert not any(row["state"] == "PRUNED" for row in _with_predictor(capsys))


def _with_predictor(capsys: Any) -> list[dict[str, str]]:
    searched(capsys, "--max", "params=1.4k", "--fresh")
    return rows()


def test_what_cannot_be_is_told_before_anything_runs(searchable: RunDir, capsys: Any) -> None:
    assert "cannot be met in toy: the least there is" in refused(capsys, "search", "a", "--max", "params=10")
    assert not Path("runs/a/study.journal").exists()
    assert "is unknown; allowed: gp, nsga2" in refused(capsys, "search", "a", "--sampler", "best")
    assert "is no measured profile" in refused(capsys, "search", "a", "--device", "three")
    assert "needs one of quality" in refused(capsys, "search", "a", "--objective", "params")
    assert "is no run" in refused(capsys, "search", "b")
    assert "has not been searched; run nas search a" in refused(capsys, "pareto", "a")


def test_an_evaluation_that_fails_is_a_failed_trial(searchable: RunDir, capsys: Any,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    from nas.search import evaluator

    honest = evaluator.predict

    def sometimes(net: Any, arch: Any, *rest: Any) -> Any:
        if arch.width == 12:
            raise RuntimeError("no luck")
        return honest(net, arch, *rest)

    monkeypatch.setattr(evaluator, "predict", sometimes)
    searched(capsys)
    states = {(row["state"], row["width"], row["reason"]) for row in rows()}
    assert states == {("COMPLETE", "8", ""), ("FAIL", "12", "RuntimeError: no luck")}


def test_a_device_that_was_profiled_later_gets_a_front(searchable: RunDir, capsys: Any) -> None:
    from nas import train

    searched(capsys)
    assert "is no measured profile" in refused(capsys, "pareto", "a", "--device", "late")
    write_profile(train.prepare(searchable).space, "late", seed=5)
    code, out, _ = nas(capsys, "pareto", "a", "--device", "late", "--json")
    found = json.loads(out)["fronts"]["late"]
    assert code == 0 and found and all("latency:late" in each["costs"] for each in found)
    assert len(rows()) == 24


def test_a_warm_start_is_tried_first(searchable: RunDir, capsys: Any) -> None:
    searched(capsys)
    kept = {each["key"] for each in json.loads(Path("runs/a/pareto.json").read_text("utf-8"))["architectures"]}
    import shutil

    shutil.copytree("runs/a", "runs/b")
    for name in ("search.yaml", "study.journal", "trials.csv", "pareto.json"):
        Path("runs/b", name).unlink()
    code, _, err = nas(capsys, "search", "b", *OPTIONS, "--warm-start", "a")
    assert (code, err) == (0, "")
    assert kept <= {row["key"] for row in rows("b")[: len(kept) + 6]}
    assert "none of its" in refused(capsys, "search", "b", "--fresh", "--warm-start", "bert-base")


@pytest.mark.parametrize(("name", "content", "says"), [
    ("study.journal", "what?\n", "is no journal of a search"),
    ("search.yaml", "sampler: 3\ncolour: red\n", "colour: unknown setting; allowed"),
    ("search.yaml", "objectives: [", "search.yaml"),
])
def test_damaged_files_are_told(searchable: RunDir, capsys: Any, name: str, content: str, says: str) -> None:
    searched(capsys)
    Path("runs/a", name).write_text(content, "utf-8")
    assert says in refused(capsys, "search", "a", "--more", "2")


def test_who_loses_a_race_is_estimated_and_on_no_front(searchable: RunDir, capsys: Any,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    from nas.search import evaluator

    monkeypatch.setattr(evaluator, "LEAST", 3)
    searched(capsys)
    lost = [row for row in rows() if row["estimated"] == "1"]
    assert lost and all(float(row["low"]) <= float(row["loss"]) <= float(row["high"]) for row in lost)
    data = json.loads(Path("runs/a/pareto.json").read_text("utf-8"))
    assert not {row["key"] for row in lost} & {each["key"] for each in data["architectures"]}
    raced = {row["key"]: float(row["loss"]) for row in lost}
    searched(capsys, "--no-race", "--fresh")
    whole = {row["key"]: float(row["loss"]) for row in rows()}
    assert not any(row["estimated"] == "1" for row in rows())
    for key in raced.keys() & whole.keys():
        assert raced[key] == pytest.approx(whole[key], abs=0.05)


def test_a_profile_of_another_vocabulary_says_what_to_run(searchable: RunDir, capsys: Any) -> None:
    from dataclasses import replace

    from nas import train

    write_profile(replace(train.prepare(searchable).space, vocab_size=61), "other")
    says = refused(capsys, "search", "a", "--device", "other")
    assert "no prefill latency for" in says and f"run nas profile other --space {Path('runs', 'a')}" in says
    name = "raspberry-pi-5-estimated"
    assert nas(capsys, "profile", name, "--space", "runs/a")[0] == 0
    code, out, err = nas(capsys, "search", "a", "--device", name, "--trials", "6", "--limit", "6")
    assert (code, err) == (0, "") and f"front on {name}" in out
