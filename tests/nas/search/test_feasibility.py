"""What a space can cost, found without trying everything, against trying everything."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nas import train
from nas.run_dir import RunDir
from nas.search.feasibility import assess
from nas.search.measures import Limit, Measure
from nas.search.pricing import Prices, load_devices
from search_spaces import InputError, load_space

MEASURES = (Measure("params"), Measure("macs"), Measure("latency", "one"))


def test_ends_equal_those_of_all_architectures(searchable: RunDir) -> None:
    space = train.prepare(searchable).space
    prices = Prices(load_devices(["one"]), 8)
    every = [space.decode(dict(zip(space.genes, values))) for values in itertools.product(*space.genes.values())]
    table = prices.values(MEASURES, every)
    for found, column in zip(assess(space, prices, MEASURES, ()).ranges, table.T):
        assert (found.least, found.greatest) == pytest.approx((column.min(), column.max()))
        assert column.min() <= found.median <= column.max()


def test_ends_are_not_only_the_smallest_and_largest() -> None:
    space = load_space("lm-tiny")
    prices = Prices({}, 32)
    found = assess(space, prices, [Measure("params")], ()).ranges[0]
    ends = prices.values([Measure("params")], [space.smallest(), space.largest(), found.cheapest, found.dearest])[:, 0]
    assert found.least == ends[2] <= ends[0] and found.greatest == ends[3] >= ends[1]


def test_an_impossible_limit_says_what_can_be_reached() -> None:
    space, params = load_space("lm-small"), Measure("params")
    found = assess(space, Prices({}, 128), [params], [Limit(params, 1000.0)])
    with pytest.raises(InputError, match=r"params <= 1 k cannot be met in lm-small: the least there is \d+\.?\d* k"):
        found.check(space.name)


def test_limits_that_exclude_each_other_say_what_comes_nearest(searchable: RunDir) -> None:
    space = train.prepare(searchable).space
    prices = Prices(load_devices(["one"]), 8)
    latency, params = Measure("latency", "one"), Measure("params")
    alone = {each.measure: each for each in assess(space, prices, (latency, params), ()).ranges}
    limits = [Limit(latency, alone[latency].least), Limit(params, alone[params].greatest, at_least=True)]
    with pytest.raises(InputError, match="cannot be met together in toy, though each can alone; the nearest that can"):
        assess(space, prices, (), limits).check(space.name)
    met = assess(space, prices, (), [Limit(params, alone[params].median)])
    met.check(space.name)
    assert met.reached[0] <= alone[params].median and 0 < met.share < 1


def test_limits_on_quality_are_nothing_that_tables_know(searchable: RunDir) -> None:
    space = train.prepare(searchable).space
    found = assess(space, Prices({}, 8), (Measure("loss"),), [Limit(Measure("loss"), 0.0)])
    assert found.ranges == () and np.isfinite(found.share)
    found.check(space.name)
