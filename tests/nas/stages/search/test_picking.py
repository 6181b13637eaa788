"""Which architectures are taken: on a front made by hand, and of a search."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from nas.core.fronts import FrontEntry
from nas.core.measures import Measure, parse_limits
from nas.core.picking import Choice, best, by_key, knee, pick, within
from nas.core.run_dir import RunDir
from search_spaces import Architecture, InputError, load_space
from tests.nas.runs import nas
from tests.nas.stages.search.made_up import write_profile

METRICS = {"loss": False, "accuracy": True}
LOSS, ACCURACY = Measure("loss"), Measure("accuracy", maximise=True)
MS, PARAMS = Measure("latency", "one"), Measure("params")


def archs(n: int) -> list[Architecture]:
    space, rng = load_space("lm-tiny"), random.Random(0)
    return [space.sample(rng) for _ in range(n)]


def entries(*points: tuple[float, float]) -> list[FrontEntry]:
    """Architectures of which (latency, loss) are given; parameters grow from one to the next."""
    return [FrontEntry(arch, {"loss": loss, "accuracy": 1 - loss / 10}, {"latency:one": ms, "params": 1000.0 * (i + 1)})
            for i, (arch, (ms, loss)) in enumerate(zip(archs(len(points)), points))]


BENT = entries((1, 5.0), (2, 3.0), (4, 2.5), (8, 2.4), (10, 2.3), (5, 4.0), (9, 6.0))
"""Five on the front, which bends at the second; two behind it."""


def limits(*most: str, least: tuple[str, ...] = ()) -> Any:
    return parse_limits(most, least, METRICS)


def test_the_knee_is_farthest_below_the_line_between_the_ends() -> None:
    assert knee(BENT, [LOSS, MS]) is BENT[1]
    assert knee(BENT, [ACCURACY, MS]) is BENT[1], "more of it is better"
    for shift, scale in ((0, 1000), (7, 0.01)):  # units of an axis do not matter
        moved = [FrontEntry(each.arch, {"loss": shift + scale * each.metrics["loss"]}, each.costs) for each in BENT]
        assert knee(moved, [LOSS, MS]) is moved[1]


def test_the_knee_of_a_cost_to_maximise() -> None:
    mirrored = entries(*((-ms, loss) for ms, loss in ((1, 5.0), (2, 3.0), (4, 2.5), (8, 2.4), (10, 2.3), (5, 4.0))))
    more = Measure("latency", "one", maximise=True)
    assert knee(mirrored, [LOSS, more]) is mirrored[1]
    straight = entries((1, 1.0), (2, 3.0))
    assert knee(straight, [LOSS, more]) is straight[1], "of ties the one with the most"


@pytest.mark.parametrize("points", [[(1, 2)], [(1, 3), (2, 1)], [(1, 3), (1.5, 2.9), (2, 1)]])
def test_the_knee_of_what_does_not_bend_is_its_cheapest_end(points: list[tuple[float, float]]) -> None:
    found = entries(*points)
    assert knee(found, [LOSS, MS]) is found[0]


def test_a_knee_needs_a_cost() -> None:
    with pytest.raises(InputError, match="device"):
        knee(BENT, [LOSS])


def test_the_best_come_first_and_of_equals_the_cheapest() -> None:
    assert best(BENT, [LOSS, MS], 3) == [BENT[4], BENT[3], BENT[2]]
    assert best(BENT, [ACCURACY, MS], 1) == [BENT[4]]
    assert len(best(BENT, [LOSS, MS], 99)) == len(BENT)
    same = entries((3, 2.0), (1, 2.0), (2, 2.0))
    assert best(same, [LOSS, MS], 2) == [same[1], same[2]]
    assert best(same, [LOSS, PARAMS], 1) == [same[0]]


def test_limits_keep_everything_within_them() -> None:
    assert within(BENT, limits("latency:one=4ms")) == BENT[:3]
    assert within(BENT, limits("latency:one=5ms", least=("params=2k",))) == [BENT[1], BENT[2], BENT[5]]
    assert within(BENT, limits("loss=2.4")) == [BENT[3], BENT[4]]
    assert within(BENT, ()) == BENT


@pytest.mark.parametrize("most, least, said", [
    (("latency:one=100us",), (), "max latency:one=1.000ms"),
    (("params=10",), (), "max params=1000"),
    ((), ("latency:one=11ms",), "min latency:one=10.000ms"),
    (("latency:one=2ms", "loss=2.9"), (), f"the nearest, {BENT[1].arch.key[:12]}, needs max loss=3.000"),
    (("bleu=3",), (), "'bleu' is unknown"),
])
def test_an_impossible_budget_says_what_is_possible(most: tuple[str, ...], least: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputError) as error:
        within(BENT, limits(*most, least=least))
    assert said in str(error.value)
    if " takes " in said:  # what it says works
        option, text = said.rpartition(" takes ")[2].split(" ", 1)
        kept = [each for each in most if not each.startswith(text.split("=")[0])]
        assert within(BENT, limits(*kept, text) if option == "max" else limits(*most, least=(text,)))


def test_every_impossible_limit_is_named() -> None:
    with pytest.raises(InputError) as error:
        within(BENT, limits("latency:one=1us", "params=1"))
    assert len(error.value.faults) == 2


def test_a_metric_that_was_not_evaluated_is_no_limit() -> None:
    with pytest.raises(InputError, match="did not evaluate accuracy"):
        within([FrontEntry(BENT[0].arch, {"loss": 1.0}, {})], limits(least=("accuracy=0.5",)))


def test_a_key_is_found_by_its_beginning() -> None:
    assert by_key(BENT, BENT[2].arch.key[:10], "a") is BENT[2]
    with pytest.raises(InputError, match=r"pareto\('a'\)"):
        by_key(BENT, "xyz", "a")
    with pytest.raises(InputError, match="give more characters"):
        by_key(BENT, "", "a")


@pytest.mark.parametrize("choice, said", [
    (Choice(), "no selection given"), (Choice(knee=True, top=3), "knee and top cannot be combined"),
    (Choice(key="ab", max=("params=1M",)), "max and min"),
])
def test_there_is_one_way_to_choose(choice: Choice, said: str) -> None:
    with pytest.raises(InputError, match=said):
        choice.check()


def test_of_a_search_also_for_a_device_it_did_not_know(searchable: RunDir, capsys: Any) -> None:
    assert nas(capsys, "search", "a", "--device", "one", "--trials", "16", "--limit", "6")[0] == 0
    found, front = pick(searchable, Choice(all_pareto=True))
    everyone = found.entries
    assert [measure.name for measure in found.objectives] == ["loss", "latency:one"]
    assert {each.arch.key for each in front} < {each.arch.key for each in everyone}

    middle = sorted(each.costs["latency:one"] for each in everyone)[8]
    _, (chosen,) = pick(searchable, Choice(max=(f"latency:one={middle}ms",)))
    allowed = [each for each in everyone if each.costs["latency:one"] <= middle]
    assert chosen.metrics["loss"] == min(each.metrics["loss"] for each in allowed)

    for name in ("two", "three"):
        if name == "three":  # profiled after the search
            write_profile(found.space, name, seed=5)
        other, (chosen,) = pick(searchable, Choice(knee=True, device=name))
        costs = [each.costs[f"latency:{name}"] for each in other.entries]
        assert min(costs) <= chosen.costs[f"latency:{name}"] <= max(costs)
        _, (least,) = pick(searchable, Choice(max=(f"latency:{name}={min(costs) + 1e-9}ms",)))
        assert least.costs[f"latency:{name}"] == min(costs)
    data = Path("runs/a/pareto.json").read_text("utf-8")
    assert "two" not in data and "three" not in data
    with pytest.raises(InputError, match="memory"):
        pick(searchable, Choice(max=("memory:one=1MB",)))
    with pytest.raises(InputError, match="four"):
        pick(searchable, Choice(knee=True, device="four"))
