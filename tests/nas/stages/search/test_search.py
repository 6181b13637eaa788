"""Searches in one process: repeatable, killed and resumed, limited, continued, priced for another device."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from nas.core.data_index import fitted_space
from nas.core.measures import Measure
from nas.core.run_dir import RunDir
from nas.core.study import Study, read_trials
from nas.stages.search.samplers._problem import Problem
from nas.stages.search.samplers._registry import Proposer, names
from nas.stages.search.search import Search
from search_spaces import load_space
from tests.nas.runs import nas, refused
from tests.nas.stages.search.made_up import write_profile

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
    command = [sys.executable, "-m", "tests.nas.stages.search.killed", "search", "a", *OPTIONS]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    first, rng = True, random.Random(0)
    for moment in ("line", "trial", "table", "line"):
        killed = subprocess.run([*command, *(["--fresh"] if first else [])], capture_output=True, timeout=600,
                                env={**environment, "KILL": f"{moment}/{rng.randrange(2, 6)}"})
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        first = False
    code, out, err = nas(capsys, "search", "a")
    assert (code, err) == (0, "") and "resuming after" in out
    assert Path("runs/a/trials.csv").read_bytes() == whole
    objectives, space = [Measure("loss"), Measure("latency", "one")], fitted_space(searchable)
    assert len(read_trials(Path("runs/a/study.journal"), objectives, space)) == 24, "nothing unfinished is on the disk"


@pytest.mark.parametrize("sampler", ["nsga2", "nsga3", "tpe", "random"])
def test_a_resumed_study_gets_the_same_proposals(sampler: str, tmp_path: Path) -> None:
    """Also in the middle of a generation."""
    space = load_space("lm-tiny")

    def visited(path: Path, cuts: Sequence[int]) -> list[dict[str, Any]]:
        for end in (*cuts, 130):
            study = Study(path, ["a", "b"], [False, False], space.distributions())
            proposer = Proposer(sampler, Problem(), 3)
            for number in range(len(study.finished), end):
                trial = study.ask(proposer.sampler(number))
                depth, width = trial.params["decoder.depth"], trial.params["width"]
                values = [width / depth + number % 7, float(width * depth)]
                study.tell(trial, TrialState.COMPLETE, values, {"key": str(number), "costs": {}}, {})
        return [trial.params for trial in study.finished]

    assert visited(tmp_path / "cut", (57, 101, 119)) == visited(tmp_path / "whole", ())


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
        code, out, _ = nas(capsys, "search", "a", *OPTIONS)
    assert code == 130 and "stopped after 5 trials; resume with: nas search a" in out
    assert nas(capsys, "search", "a")[0] == 0 and len(rows()) == 24


def test_more_goes_on_and_another_question_is_refused(searchable: RunDir, capsys: Any) -> None:
    searched(capsys)
    before = rows()
    code, out, _ = nas(capsys, "search", "a", "--more", "6")
    assert code == 0 and "resuming after 24 of 30 trials" in out
    assert rows()[:24] == before and len(rows()) == 30
    says = refused(capsys, "search", "a", "--seed", "3", "--device", "two")
    assert "seed is 0 in the search, requested: 3" in says and "restart with --fresh" in says
    assert "devices is one in the search, requested: two" in says
    assert "has not been searched; --more resumes" in _refused_after_moving(capsys)


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
    assert "no architecture of toy has params <= 10: the minimum is" in refused(capsys, "search", "a", "--max",
                                                                                "params=10")
    assert not Path("runs/a/study.journal").exists()
    assert "is unknown; allowed: gp, nsga2" in refused(capsys, "search", "a", "--sampler", "best")
    says = refused(capsys, "search", "a", "--device", "three")
    assert "three: is unknown: not a measured profile, a shipped device" in says and "nas profile" not in says
    assert "profiles here: one, two; shipped devices: a100-estimated," in says
    assert "did you mean cpu?" in refused(capsys, "search", "a", "--device", "cpux")
    says = refused(capsys, "search", "a", "--device", "cpu")
    assert "cpu: has no measured profile; profiles here: one, two; create one with nas profile cpu --space" in says
    assert "needs a quality objective" in refused(capsys, "search", "a", "--objective", "params")
    assert "is not a run" in refused(capsys, "search", "b")
    assert "has not been searched; run nas search a" in refused(capsys, "pareto", "a")


def test_an_evaluation_that_fails_is_a_failed_trial(searchable: RunDir, capsys: Any,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    from nas.stages.search import evaluator

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
    from nas.core import evaluation as train

    searched(capsys)
    assert "not a measured profile" in refused(capsys, "pareto", "a", "--device", "late")
    write_profile(train.prepare(searchable).space, "late", seed=5)
    code, out, _ = nas(capsys, "pareto", "a", "--device", "late", "--json")
    found = json.loads(out)["fronts"]["late"]
    assert code == 0 and found and all("latency:late" in each["costs"] for each in found)
    assert len(rows()) == 24


def test_a_device_that_was_profiled_anew_has_one_set_of_costs(searchable: RunDir, capsys: Any) -> None:
    from nas.core import evaluation as train

    code, _, err = nas(capsys, "search", "a", "--device", "one", "--trials", "20", "--limit", "6")
    before = {row["key"]: float(row["latency:one"]) for row in rows()}
    assert (code, err) == (0, "") and nas(capsys, "pareto", "a")[2] == ""
    kept = Path("runs/a/pareto.json").read_text("utf-8")
    write_profile(train.prepare(searchable).space, "one", seed=5)
    code, out, err = nas(capsys, "pareto", "a", "--json")
    found = {each["key"]: each["costs"]["latency:one"] for each in json.loads(out)["fronts"]["one"]}
    assert err == ("nas: warning: the profile of one changed since the search; costs are from the current profile; nas "
                   "search a "
                   "--fresh searches again with them\n")
    assert found and all(value != before[key] for key, value in found.items())
    assert Path("runs/a/pareto.json").read_text("utf-8") == kept  # the search's own
    most = min(found.values())
    code, out, err = nas(capsys, "extract", "a", "--max", f"latency:one={most}ms", "--json")
    assert code == 0 and "changed since the search" in err
    assert [each["costs"]["latency:one"] for each in json.loads(out)["subnets"]] == [most]


def test_a_warm_start_is_tried_first(searchable: RunDir, capsys: Any) -> None:
    searched(capsys)
    kept = {each["key"] for each in json.loads(Path("runs/a/pareto.json").read_text("utf-8"))["architectures"]}
    shutil.copytree("runs/a", "runs/b")
    for name in ("search.yaml", "study.journal", "trials.csv", "pareto.json"):
        Path("runs/b", name).unlink()
    code, _, err = nas(capsys, "search", "b", *OPTIONS, "--warm-start", "a")
    assert (code, err) == (0, "")
    assert kept <= {row["key"] for row in rows("b")[: len(kept) + 6]}
    assert "none of its" in refused(capsys, "search", "b", "--fresh", "--warm-start", "bert-base")


@pytest.mark.parametrize(("name", "content", "says"), [
    ("study.journal", "what?\n", "study.journal, line 1: not valid JSON"),
    ("search.yaml", "sampler: 3\ncolour: red\n", "colour: unknown setting; allowed"),
    ("search.yaml", "objectives: [", "search.yaml"),
])
def test_damaged_files_are_told(searchable: RunDir, capsys: Any, name: str, content: str, says: str) -> None:
    searched(capsys)
    Path("runs/a", name).write_text(content, "utf-8")
    assert says in refused(capsys, "search", "a", "--more", "2")


def test_who_loses_a_race_is_estimated_and_on_no_front(searchable: RunDir, capsys: Any,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    from nas.stages.search import racing

    monkeypatch.setattr(racing, "MIN_BATCHES", 3)
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

    from nas.core import evaluation as train

    write_profile(replace(train.prepare(searchable).space, vocab_size=61), "other")
    says = refused(capsys, "search", "a", "--device", "other")
    assert "no prefill latency for" in says and f"run nas profile other --space {Path('runs', 'a')}" in says
    name = "raspberry-pi-5-estimated"
    assert nas(capsys, "profile", name, "--space", "runs/a")[0] == 0
    code, out, err = nas(capsys, "search", "a", "--device", name, "--trials", "6", "--limit", "6")
    assert code == 0 and f"front on {name}" in out
    assert f"{name} is estimated from a specification" in err and len(err.splitlines()) == 1


def test_a_search_does_not_go_on_with_other_weights_or_prices(searchable: RunDir, capsys: Any) -> None:
    from nas.core import evaluation as train

    searched(capsys)
    write_profile(train.prepare(searchable).space, "one", seed=9)
    says = refused(capsys, "search", "a", "--more", "3")
    assert "the profile of one changed since the search started" in says and "--fresh" in says
    write_profile(train.prepare(searchable).space, "one")
    assert nas(capsys, "search", "a", "--more", "3")[0] == 0
    weights = bytearray(searchable.weights_path.read_bytes())
    weights[-1] ^= 1
    searchable.weights_path.write_bytes(bytes(weights))
    assert "supernet.safetensors changed since the search started" in refused(capsys, "search", "a", "--more", "3")


def test_a_failed_start_leaves_the_older_search_where_it_is(searchable: RunDir, capsys: Any) -> None:
    searched(capsys)
    before = Path("runs/a/trials.csv").read_bytes()
    for wrong in (("--max", "params=10"), ("--objective", "speed"), ("--warm-start", "bert-base"), ("--more", "3"),
                  ("--sampler", "best")):
        refused(capsys, "search", "a", "--fresh", *wrong)
    assert "is unknown; allowed" in refused(capsys, "search", "a", "--sampler", "best"), "not: start anew"
    assert Path("runs/a/trials.csv").read_bytes() == before and not Path("runs/a/searches").exists()
    assert "need a cluster; add --ray" in refused(capsys, "search", "a", "--concurrency", "2")
    assert "cannot be combined with --trials" in refused(capsys, "search", "a", "--more", "2", "--trials", "9")


def test_limits_on_quality_count_everywhere(searchable: RunDir, capsys: Any) -> None:
    out = searched(capsys, "--max", "loss=0.1")
    assert "no architecture within all limits was found" in out
    assert "loss <= 0.1000: the best value is" in out and "front 0" in out
    data = json.loads(Path("runs/a/pareto.json").read_text("utf-8"))
    assert data["front"] == [] and set(data["hypervolume"]) == {0.0}
    assert not any(row["estimated"] == "1" for row in rows()), "nobody within the limits to race"


def test_fronts_can_be_looked_at_while_a_search_runs(searchable: RunDir, capsys: Any) -> None:
    searched(capsys)
    with searchable.locked(), Path("runs/a/study.journal").open("a") as journal:
        journal.write('{"half a')
        journal.flush()
        size = Path("runs/a/study.journal").stat().st_size
        code, out, err = nas(capsys, "pareto", "a")
        assert (code, err) == (0, "") and "front on one" in out
        assert Path("runs/a/study.journal").stat().st_size == size, "it was only read"


def test_reading_a_search_needs_neither_data_nor_weights_nor_profiles(searchable: RunDir, capsys: Any) -> None:
    searched(capsys)
    before = nas(capsys, "pareto", "a", "--json")[1]
    assert nas(capsys, "extract", "a", "--knee")[0] == 0
    shutil.rmtree("runs/profiles")
    searchable.weights_path.unlink()
    for path in Path("runs/a/data").iterdir():
        if path.name != "data.json":
            path.unlink()
    code, out, err = nas(capsys, "pareto", "a", "--json")
    assert (code, err) == (0, "") and out == before
    code, out, err = nas(capsys, "extract", "a", "--knee")
    assert (code, err) == (0, "") and "unchanged" in out
    assert nas(capsys, "report", "a")[0] == 0


def test_a_device_that_only_limits_is_priced_for_its_front(searchable: RunDir, capsys: Any) -> None:
    searched(capsys, "--device", "two", "--objective", "loss", "--objective", "latency:one")
    out = nas(capsys, "pareto", "a", "--device", "two")[1]
    assert "front on two" in out and "latency:two" in out


def test_trials_beyond_what_the_limits_allow_are_told(searchable: RunDir, capsys: Any) -> None:
    code, out, err = nas(capsys, "search", "a", "--trials", "60", "--limit", "4", "--max", "params=900")
    assert (code, err) == (0, "")
    known = [row["key"] for row in rows() if row["state"] == "COMPLETE"]
    assert len(set(known)) < 50
    assert f"{len(known) - len(set(known))} of 60 trials repeated a known architecture" in out
    head, *_, limited, _ = [line.split() for line in out.splitlines() if line.strip()][:3]
    assert head[-2:] == ["within", "it"] and "<=" in " ".join(limited)
