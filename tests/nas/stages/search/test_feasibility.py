"""What a space can cost, found without trying everything, against trying everything."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from nas.core import evaluation as train
from nas.core.measures import Limit, Measure, parse_limit
from nas.core.pricing import Prices, load_devices
from nas.core.run_dir import RunDir
from nas.stages.search.feasibility import assess
from search_spaces import InputError, load_space
from tests.nas.runs import nas

MEASURES = (Measure("params"), Measure("macs"), Measure("latency", "one"))


def test_ends_equal_those_of_all_architectures(searchable: RunDir) -> None:
    space = train.prepare(searchable).space
    prices = Prices(load_devices(["one"]), 8)
    every = [space.decode(dict(zip(space.genes, values))) for values in itertools.product(*space.genes.values())]
    table = prices.values(MEASURES, every)
    for found, column in zip(assess(space, prices, MEASURES, ()).ranges, table.T):
        assert (found.least, found.greatest) == pytest.approx((column.min(), column.max()))
        assert column.min() <= found.median <= column.max()


def test_ends_are_called_what_they_are(searchable: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    """What descents found: a trial may lie beyond."""
    code, out, _ = nas(capsys, "search", "a", "--device", "one", "--trials", "1", "--limit", "4")
    assert code == 0 and out.split("\n", 1)[0].split() == [
        "cost", "smallest", "found", "median", "largest", "found", "limit"]


def test_ends_are_not_only_the_smallest_and_largest() -> None:
    space = load_space("lm-tiny")
    prices = Prices({}, 32)
    found = assess(space, prices, [Measure("params")], ()).ranges[0]
    ends = prices.values([Measure("params")], [space.smallest(), space.largest(), found.cheapest, found.dearest])[:, 0]
    assert found.least == ends[2] < ends[0], "the smallest has more parameters than the least"
    assert found.greatest == ends[3] >= ends[1]


@pytest.mark.parametrize("seed", range(6))
def test_limits_that_an_architecture_meets_are_never_refused(seed: int) -> None:
    space, params, macs = load_space("lm-tiny"), Measure("params"), Measure("macs")
    prices = Prices({}, 32)
    values = prices.values([params, macs], [space.sample(random.Random(seed))])[0]
    limits = [Limit(params, values[0]), Limit(macs, values[1], at_least=True)]
    found = assess(space, prices, (), limits)
    found.check(space.name)
    assert all(limit.holds(value) for limit, value in zip(limits, found.reached))


def test_what_is_said_to_be_reachable_is(searchable: RunDir) -> None:
    space = train.prepare(searchable).space
    prices = Prices(load_devices(["one"]), 8)
    for each in assess(space, prices, MEASURES, ()).ranges:
        for best, above in ((each.least, False), (each.greatest, True)):
            said = each.measure.show_bound(best, above)
            assert parse_limit(f"{each.measure.name}={said}", {}, at_least=above).holds(best)


def test_an_impossible_limit_says_what_can_be_reached() -> None:
    space, params = load_space("lm-small"), Measure("params")
    found = assess(space, Prices({}, 128), [params], [Limit(params, 1000.0)])
    with pytest.raises(InputError, match=r"no architecture of lm-small has params <= 1 k: the minimum is \d{3},\d{3};"):
        found.check(space.name)


def test_limits_that_exclude_each_other_say_what_comes_nearest(searchable: RunDir) -> None:
    space = train.prepare(searchable).space
    prices = Prices(load_devices(["one"]), 8)
    latency, params = Measure("latency", "one"), Measure("params")
    alone = {each.measure: each for each in assess(space, prices, (latency, params), ()).ranges}
    limits = [Limit(latency, alone[latency].least), Limit(params, alone[params].greatest, at_least=True)]
    with pytest.raises(InputError, match="although each alone can be met; the nearest: latency:one="):
        assess(space, prices, (), limits).check(space.name)
    met = assess(space, prices, (), [Limit(params, alone[params].median)])
    met.check(space.name)
    assert met.reached[0] <= alone[params].median and 0 < met.share < 1


def test_limits_on_quality_are_nothing_that_tables_know(searchable: RunDir) -> None:
    space = train.prepare(searchable).space
    found = assess(space, Prices({}, 8), (Measure("loss"),), [Limit(Measure("loss"), 0.0)])
    assert found.ranges == () and np.isfinite(found.share)
    found.check(space.name)
