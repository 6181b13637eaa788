"""The range of costs in a space, and whether limits can be met.

Minimum and maximum are found by local descents, so some architecture may lie slightly beyond them.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from nas.core.measures import Limit, Measure
from nas.core.pareto import Floats
from nas.core.pricing import Prices
from search_spaces import Architecture, Fault, InputError, SearchSpace
from search_spaces.kind import Value

Genes = dict[str, Value]
Costs = Callable[[Sequence[Architecture]], Floats]
SAMPLES = 200
"""Number of random architectures for the median and as starting points of descents."""
MORE_STARTS = 12
"""Number of descents before a limit is reported as infeasible."""
GIVE_UP_BEYOND = 0.5
"""Relative distance to the limit beyond which no more descents are tried."""
MOST_PASSES = 30
"""Maximum number of rounds of a descent."""


@dataclass(frozen=True)
class Range:
    """The range of one cost.

    Args:
        least: found by descents, as is `greatest`; the median is of random architectures.
        cheapest: an architecture of the least cost found.
        dearest: one of the greatest found.
        within: the share of random architectures that meet the limits on this cost.
        unmeasured: the shares of the least and of the greatest that are based on interpolated or estimated prices.
    """

    measure: Measure
    least: float
    median: float
    greatest: float
    cheapest: Architecture
    dearest: Architecture
    within: float
    unmeasured: tuple[float, float]


@dataclass(frozen=True)
class Feasibility:
    """The ranges of all costs, and an architecture that meets every limit (or comes nearest)."""

    ranges: tuple[Range, ...]
    limits: tuple[Limit, ...]
    nearest: Architecture
    reached: tuple[float, ...]
    """The nearest one's cost for each limit."""
    share: float
    """Share of random architectures that meet all limits."""

    def check(self, space_name: str) -> None:
        """Raises InputError if a limit, or all together, cannot be met; reports reachable values."""
        faults = []
        for limit in self.limits:
            cost_range = next(cost_range for cost_range in self.ranges if cost_range.measure == limit.measure)
            best = cost_range.greatest if limit.at_least else cost_range.least
            if not limit.holds(best):
                faults.append(_out_of_reach(limit, best, space_name))
        together = any(not limit.holds(value) for limit, value in zip(self.limits, self.reached))
        if not faults and together:
            best_all = ", ".join(f"{limit.measure.name}={limit.measure.show_bound(value, limit.at_least)}"
                                 for limit, value in zip(self.limits, self.reached))
            wanted = " and ".join(map(str, self.limits))
            faults.append(Fault("", f"no architecture of {space_name} meets {wanted} together, although each alone can "
                                    f"be met; the nearest: {best_all}"))
        if faults:
            raise InputError("limits", faults)


def refuse_infeasible(space: SearchSpace, prices: Prices, limits: Sequence[Limit]) -> None:
    """Raises InputError for clearly infeasible limits after one descent; faster than `assess`."""
    faults = []
    for limit in limits:
        if not limit.measure.is_quality:
            sign, start = (-1, space.largest()) if limit.at_least else (1, space.smallest())
            pairs, plain = _moves(space)
            best, _ = _descend(space, space.encode(start), _priced(prices, limit.measure, sign), [pairs, *plain],
                               -np.inf)
            if best - sign * limit.value > GIVE_UP_BEYOND * abs(best):
                faults.append(_out_of_reach(limit, sign * best, space.name))
    if faults:
        raise InputError("limits", faults)


def _out_of_reach(limit: Limit, best: float, space_name: str) -> Fault:
    word = "maximum" if limit.at_least else "minimum"
    return Fault("", f"no architecture of {space_name} has {limit}: the {word} is "
                     f"{limit.measure.show_bound(best, limit.at_least)}; relax the limit, or use another space")


def assess(space: SearchSpace, prices: Prices, measures: Sequence[Measure], limits: Sequence[Limit],
           seed: int = 0) -> Feasibility:
    """Search the tables for the range of each cost and for architectures within all limits; evaluates nothing.

    Args:
        measures: costs to examine, besides those of the limits; quality measures are ignored.
        limits: only limits on costs are checked; reachable quality is unknown in advance.
    """
    limits = tuple(limit for limit in limits if not limit.measure.is_quality)
    wanted = tuple(dict.fromkeys((*(m for m in measures if not m.is_quality), *(limit.measure for limit in limits))))
    rng = random.Random(f"feasibility {seed}")  # noqa: S311 - repeatable, not secret
    drawn: list[Genes] = [{name: rng.choice(values) for name, values in space.genes.items()} for _ in range(SAMPLES)]
    starts = [*(space.encode(arch) for arch in (space.smallest(), space.largest())), *drawn]
    table = prices.values(wanted, [space.decode(genes) for genes in starts])
    ranges, known = [], list(starts)
    for i, measure in enumerate(wanted):
        ends = [_end(space, [start, *drawn], np.concatenate([[-np.inf], sign * table[2:, i]]),
                     _priced(prices, measure, sign), _goal(measure, limits, sign), GIVE_UP_BEYOND)
                for sign, start in ((1, starts[0]), (-1, starts[1]))]  # from the smallest, from the largest
        known += ends
        cheapest, dearest = (space.decode(genes) for genes in ends)
        least, greatest = prices.values([measure], [cheapest, dearest])[:, 0].tolist()
        mine = [limit for limit in limits if limit.measure == measure]
        within = np.mean([all(limit.holds(value) for limit in mine) for value in table[2:, i].tolist()])
        median = float(np.median(table[2:, i]))
        low, high = prices.unmeasured_shares([measure], [cheapest, dearest])[:, 0].tolist()
        ranges.append(Range(measure, least, median, greatest, cheapest, dearest, float(within), (low, high)))
    return _with_limits(space, prices, tuple(ranges), limits, known)


def _with_limits(space: SearchSpace, prices: Prices, ranges: tuple[Range, ...], limits: tuple[Limit, ...],
                 known: list[Genes]) -> Feasibility:
    measures = [limit.measure for limit in limits]

    def excess(archs: Sequence[Architecture]) -> Floats:
        values = prices.values(measures, archs)
        over = np.array([[limit.excess(value) for limit, value in zip(limits, row)] for row in values.tolist()])
        worst = over.max(axis=1, initial=-np.inf) if limits else np.zeros(len(archs))
        return np.where(worst > 0, worst + 1e-3 * np.maximum(over, 0).sum(axis=1), np.minimum(worst, 0))

    scores = excess([space.decode(genes) for genes in known])
    share = float(np.mean(scores[2 : 2 + SAMPLES] <= 0))
    best = known[int(np.argmin(scores))]
    alone = {cost_range.measure: cost_range for cost_range in ranges}
    possible = all(limit.holds(alone[limit.measure].greatest if limit.at_least else alone[limit.measure].least)
                   for limit in limits)
    if scores.min() > 0 and possible:
        best = _end(space, known, scores, excess, 0.0)
    arch = space.decode(best)
    reached = tuple(prices.values(measures, [arch])[0].tolist()) if limits else ()
    return Feasibility(ranges, limits, arch, reached, share)


def _priced(prices: Prices, measure: Measure, sign: int) -> Costs:
    return lambda archs: sign * prices.values([measure], archs)[:, 0]


def _goal(measure: Measure, limits: Sequence[Limit], sign: int) -> float:
    """The bound on the minimum (sign 1) or negated maximum (-1) of a cost, from all its limits."""
    wanted = [sign * limit.value for limit in limits if limit.measure == measure and limit.at_least == (sign < 0)]
    return min(wanted, default=np.inf)


def _end(space: SearchSpace, known: Sequence[Genes], costs: Floats, cost: Costs, goal: float,
         give_up_beyond: float = np.inf) -> Genes:
    """The genotype of the least cost; as long as that misses the goal, quicker descents from other starts are tried.

    Args:
        give_up_beyond: relative distance to the goal beyond which no more descents are tried.
    """
    pairs, plain = _moves(space)
    order = [known[i] for i in np.argsort(costs, kind="stable")]
    best = _descend(space, order[0], cost, [pairs, *plain], -np.inf)
    for start in [*order[1 : MORE_STARTS // 2], *known[-MORE_STARTS // 2:]]:
        if best[0] <= goal or best[0] - goal > give_up_beyond * abs(best[0]):
            break
        best = min(best, _descend(space, start, cost, plain, goal), key=lambda end: end[0])
    return best[1]


def _descend(space: SearchSpace, genes: Genes, cost: Costs, groups: Sequence[Sequence[Genes]],
             enough: float) -> tuple[float, Genes]:
    """Coordinate descent: make the best change of every group in turn until none helps."""
    best = float(cost([space.decode(genes)])[0])
    for _ in range(MOST_PASSES):
        before = best
        for group in groups:
            others = list(filter(genes.__ne__, ({**genes, **move} for move in group)))
            costs = cost([space.decode(other) for other in others]) if others else np.array([np.inf])
            if costs.min() < best:
                best, genes = float(costs.min()), others[int(np.argmin(costs))]
        if best >= before or best <= enough:
            break
    return best, genes


@lru_cache(maxsize=4)
def _moves(space: SearchSpace) -> tuple[list[Genes], list[list[Genes]]]:
    """Pairs of changes in all slots alike, and groups of changes: of a gene in all slots that have it, and in one.

    A kind may help only together with dims that other kinds lack, so kinds are tried in pairs with everything; costs of
    slots are additive, so a change that helps in one usually helps in all.
    """
    alike: dict[str, dict[Value, Genes]] = {}
    for name, values in space.genes.items():
        for value in values:
            alike.setdefault(re.sub(r"\.\d+\.", ".", name), {}).setdefault(value, {})[name] = value
    every = [move for group in alike.values() for move in group.values()]
    pairs = [{**one, **other} for one, other in itertools.combinations(every, 2) if _words(one) or _words(other)]
    single = [[{name: value} for value in values] for name, values in space.genes.items()]
    return pairs, [*(list(group.values()) for group in alike.values()), *single]


def _words(move: Genes) -> bool:
    """Whether a move changes kinds; numbers have independent effects."""
    return isinstance(next(iter(move.values())), str)
