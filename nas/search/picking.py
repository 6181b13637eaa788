"""Which of the architectures that a search evaluated to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nas import tasks
from nas.run_dir import RunDir
from nas.search.evaluated import Evaluated, read_evaluated
from nas.search.front import as_costs
from nas.search.measures import Limit, Measure, parse_limits
from nas.search.results import Entry, front, objectives_for
from search_spaces import Fault, InputError


@dataclass(frozen=True)
class Choice:
    """How to choose: by one of `key`, `knee`, `top` and `all_pareto`, or the best within limits.

    The limits narrow what all but `key` choose from, which is everything evaluated, not the front alone. How good an
    architecture is, is the first objective of the search that is evaluated.

    Args:
        key: the beginning of a key that only one has.
        knee: where the front of quality and the first cost bends most: with both axes scaled to the length of the
            front, the architecture farthest below the line between its ends.
        top: so many of the best.
        all_pareto: the front of all objectives.
        most: limits from above, as the user writes them.
        least: limits from below.
        device: whose latency is meant, and whose front; also one that was profiled after the search.
    """

    key: str | None = None
    knee: bool = False
    top: int | None = None
    all_pareto: bool = False
    most: tuple[str, ...] = ()
    least: tuple[str, ...] = ()
    device: str | None = None

    def check(self) -> None:
        """Raises InputError where there is not exactly one way to choose."""
        ways = {"--key": self.key is not None, "--knee": self.knee, "--top": self.top is not None,
                "--all-pareto": self.all_pareto}
        given = [name for name, asked in ways.items() if asked]
        limited = bool(self.most or self.least)
        if len(given) > 1:
            raise InputError("", f"{' and '.join(given)} exclude each other; give one")
        if not given and not limited:
            raise InputError("", f"what to take is missing; give --max MEASURE=VALUE, or one of {', '.join(ways)}")
        if self.key is not None and limited:
            raise InputError("--key", "names one architecture; --max and --min choose among several")


def pick(run: RunDir, choice: Choice) -> tuple[Evaluated, list[Entry]]:
    """What a search evaluated, and what was chosen of it: at least one, the best or the cheapest first.

    Raises:
        InputError: there is no search, the choice is none, or nothing meets the limits; says what is nearest.
    """
    choice.check()
    limits = parse_limits(choice.most, choice.least, tasks.get(run.config().task).metrics)
    found = read_evaluated(run, choice.device, [limit.measure for limit in limits])
    if not found.entries:
        raise InputError(str(run.path), "nothing was evaluated to the end within the limits of its search; go on with "
                                        f"nas search {run.name} --more 50, or start anew with --fresh and wider limits")
    objectives = objectives_for(found.objectives, choice.device)
    if choice.device is not None:
        objectives.sort(key=lambda measure: measure.device != choice.device)  # the device's own cost is the first one
    if choice.key is not None:
        return found, [by_key(found.entries, choice.key, run.name)]
    entries = within(found.entries, limits)
    if choice.all_pareto:
        return found, front(entries, objectives)
    return found, [knee(entries, objectives)] if choice.knee else best(entries, objectives, choice.top or 1)


def by_key(entries: Sequence[Entry], key: str, run: str) -> Entry:
    """The one whose key begins so. Raises InputError where there is none, or several."""
    found = [entry for entry in entries if entry.arch.key.startswith(key)]
    if not found:
        raise InputError("--key", f"no architecture that was evaluated to the end within the limits of the search has "
                                  f"a key that begins with {key!r}; nas pareto {run} lists keys")
    if len(found) > 1:
        shown = ", ".join(entry.arch.key[:12] for entry in found[:3])
        raise InputError("--key", f"{key!r} begins {len(found)} keys ({shown}, ...); give more of it")
    return found[0]


def within(entries: Sequence[Entry], limits: Sequence[Limit]) -> list[Entry]:
    """Those that meet all limits. Raises InputError where none does, with what comes nearest."""
    for limit in limits:
        if limit.measure.is_quality and not all(limit.measure.kind in entry.metrics for entry in entries):
            raise InputError("--min" if limit.at_least else "--max",
                             f"the search did not evaluate {limit.measure.name}; it knows "
                             f"{', '.join(entries[0].metrics)} and all costs")
    kept = [entry for entry in entries if all(limit.holds(entry.value(limit.measure)) for limit in limits)]
    if not kept:
        raise InputError("", _unmet(entries, limits))
    return kept


def _unmet(entries: Sequence[Entry], limits: Sequence[Limit]) -> list[Fault]:
    """What is nearest: for each limit that nothing meets, or else for those that nothing meets together."""
    reached = {limit: min((entry.value(limit.measure) for entry in entries), key=limit.excess) for limit in limits}
    says = f"none of the {len(entries):,} evaluated architectures has"
    alone = [limit for limit, value in reached.items() if not limit.holds(value)]
    if alone:
        return [Fault("", f"{says} {limit}; the nearest takes {_option(limit, reached[limit])}") for limit in alone]
    nearest = min(entries, key=lambda entry: max(limit.excess(entry.value(limit.measure)) for limit in limits))
    missed = [limit for limit in limits if not limit.holds(nearest.value(limit.measure))]
    takes = " ".join(_option(limit, nearest.value(limit.measure)) for limit in missed)
    return [Fault("", f"{says} {' and '.join(map(str, limits))}; the nearest, {nearest.arch.key[:12]}, takes {takes}")]


def _option(limit: Limit, value: float) -> str:
    shown = limit.measure.show_bound(value, limit.at_least).replace(",", "")
    return f"--{'min' if limit.at_least else 'max'} {limit.measure.name}={shown}"


def best(entries: Sequence[Entry], objectives: Sequence[Measure], n: int) -> list[Entry]:
    """The n best, the very best first; of equally good ones the cheaper."""
    order = [_quality(objectives), *(measure for measure in objectives if not measure.is_quality)]
    costs = as_costs([[entry.value(measure) for measure in order] for entry in entries],
                     [measure.maximise for measure in order]).tolist()
    ranked = sorted(zip(costs, entries), key=lambda pair: (pair[0], pair[1].arch.key))
    return [entry for _, entry in ranked[:n]]


def knee(entries: Sequence[Entry], objectives: Sequence[Measure]) -> Entry:
    """Where the front of quality and the first cost bends most; of equals the cheapest.

    Raises:
        InputError: the objectives have no cost.
    """
    quality, cost = _quality(objectives), next((each for each in objectives if not each.is_quality), None)
    if cost is None:
        raise InputError("--knee", "the search had no cost among its objectives; name a profiled --device, or give "
                                   "--top 1")
    found = front(entries, [quality, cost])
    points = as_costs([[entry.value(quality), entry.value(cost)] for entry in found], [quality.maximise, False])
    low, high = points.min(axis=0), points.max(axis=0)
    scaled = (points - low) / np.where(high > low, high - low, 1.0)
    return found[int(np.argmin(scaled.sum(axis=1)))]  # the ends are (0, 1) and (1, 0): the sum tells the distance


def _quality(objectives: Sequence[Measure]) -> Measure:
    return next(measure for measure in objectives if measure.is_quality)
