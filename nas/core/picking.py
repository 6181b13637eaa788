"""Selection among the evaluated architectures of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nas import tasks
from nas.core.evaluated import SearchedRun, read_evaluated
from nas.core.fronts import FrontEntry, front, objectives_for
from nas.core.measures import Limit, Measure, parse_limits
from nas.core.pareto import as_costs
from nas.core.run_dir import RunDir
from nas.core.search_config import search_metrics
from search_spaces import Fault, InputError
from search_spaces.errors import Command, Option


@dataclass(frozen=True)
class Choice:
    """How to select: by one of `key`, `knee`, `top` and `all_pareto`, or the best within limits.

    Limits restrict the candidates of all but `key`. Candidates are all evaluated architectures, not only the front.
    Quality is the first evaluated objective of the search.

    Args:
        key: a prefix that matches only one key.
        knee: where the front of quality and the first cost bends most: with both axes scaled to the length of the
            front, the architecture farthest below the line between its ends.
        top: number of best architectures.
        all_pareto: the front of all objectives.
        max: upper limits as text, such as `latency:cpu=12ms`.
        min: lower limits.
        device: whose latency and front are used; may be profiled after the search.
    """

    key: str | None = None
    knee: bool = False
    top: int | None = None
    all_pareto: bool = False
    max: tuple[str, ...] = ()
    min: tuple[str, ...] = ()
    device: str | None = None

    def check(self) -> None:
        """Raises InputError unless exactly one selection is given."""
        ways = {"key": self.key is not None, "knee": self.knee, "top": self.top is not None,
                "all_pareto": self.all_pareto}
        given = [str(Option(name)) for name, is_given in ways.items() if is_given]
        limited = bool(self.max or self.min)
        if len(given) > 1:
            raise InputError("", f"{' and '.join(given)} cannot be combined; give one")
        if not given and not limited:
            raise InputError("", f"no selection given; use {Option('max')} MEASURE=VALUE, or one of "
                                 f"{', '.join(str(Option(name)) for name in ways)}")
        if self.key is not None and limited:
            raise InputError(Option("key"), f"names one architecture; {Option('max')} and {Option('min')} select among "
                                            "several")


def pick(run: RunDir, choice: Choice) -> tuple[SearchedRun, list[FrontEntry]]:
    """The evaluated architectures of a search, and the selected ones: at least one, the best or the cheapest first.

    Raises:
        InputError: there is no search, the selection is invalid, or nothing meets the limits; names the nearest.
    """
    choice.check()
    limits = parse_limits(choice.max, choice.min, search_metrics(run.path, tasks.get(run.config().task)))
    searched = read_evaluated(run, choice.device, [limit.measure for limit in limits])
    if not searched.entries:
        raise InputError(str(run.path), "no architecture was fully evaluated within the limits of the search; resume "
                                        "with "
                                        f"{Command('search', run.name, more=50)}, or start over with "
                                        f"{Option('fresh')} and wider limits")
    objectives = objectives_for(searched.objectives, choice.device)
    if choice.device is not None:
        objectives.sort(key=lambda measure: measure.device != choice.device)  # the device's own cost is the first one
    if choice.key is not None:
        return searched, [by_key(searched.entries, choice.key, run.name)]
    entries = within(searched.entries, limits)
    if choice.all_pareto:
        return searched, front(entries, objectives)
    return searched, [knee(entries, objectives)] if choice.knee else best(entries, objectives, choice.top or 1)


def by_key(entries: Sequence[FrontEntry], key: str, run: str) -> FrontEntry:
    """The architecture whose key has this prefix. Raises InputError if there is none, or several."""
    matches = [entry for entry in entries if entry.arch.key.startswith(key)]
    if not matches:
        raise InputError(Option("key"), "no fully evaluated architecture within the limits of the search "
                                        f"has a key that starts with {key!r}; {Command('pareto', run)} lists keys")
    if len(matches) > 1:
        shown = ", ".join(entry.arch.key[:12] for entry in matches[:3])
        raise InputError(Option("key"), f"{key!r} matches {len(matches)} keys ({shown}, ...); give more "
                                        "characters")
    return matches[0]


def within(entries: Sequence[FrontEntry], limits: Sequence[Limit]) -> list[FrontEntry]:
    """The architectures that meet all limits. Raises InputError with the nearest if there are none."""
    for limit in limits:
        if limit.measure.is_quality and not all(limit.measure.name in entry.metrics for entry in entries):
            raise InputError(_option(limit), f"the search did not evaluate {limit.measure.name}; allowed: "
                                             f"{', '.join(entries[0].metrics)} and all costs")
    kept = [entry for entry in entries if all(limit.holds(entry.value(limit.measure)) for limit in limits)]
    if not kept:
        raise InputError("", _unmet(entries, limits))
    return kept


def _unmet(entries: Sequence[FrontEntry], limits: Sequence[Limit]) -> list[Fault]:
    """The nearest values: for each limit that cannot be met, else for limits that cannot be met together."""
    reached = {limit: min((entry.value(limit.measure) for entry in entries), key=limit.excess) for limit in limits}
    problem = f"none of the {len(entries):,} evaluated architectures has"
    alone = [limit for limit, value in reached.items() if not limit.holds(value)]
    if alone:
        return [Fault("", f"{problem} {limit}; the nearest needs {_bound(limit, reached[limit])}") for limit in alone]
    nearest = min(entries, key=lambda entry: max(limit.excess(entry.value(limit.measure)) for limit in limits))
    missed = [limit for limit in limits if not limit.holds(nearest.value(limit.measure))]
    takes = " ".join(_bound(limit, nearest.value(limit.measure)) for limit in missed)
    wanted = " and ".join(map(str, limits))
    return [Fault("", f"{problem} {wanted}; the nearest, {nearest.arch.key[:12]}, needs {takes}")]


def _option(limit: Limit) -> Option:
    return Option("min" if limit.at_least else "max")


def _bound(limit: Limit, value: float) -> str:
    """The limit, as an option, that a value would meet."""
    return f"{_option(limit)} {limit.measure.name}={limit.measure.show_bound(value, limit.at_least).replace(',', '')}"


def best(entries: Sequence[FrontEntry], objectives: Sequence[Measure], n: int) -> list[FrontEntry]:
    """The n best, best first; ties are broken by cost."""
    order = [_quality(objectives), *(measure for measure in objectives if not measure.is_quality)]
    costs = as_costs([[entry.value(measure) for measure in order] for entry in entries],
                     [measure.maximise for measure in order]).tolist()
    ranked = sorted(zip(costs, entries), key=lambda pair: (pair[0], pair[1].arch.key))
    return [entry for _, entry in ranked[:n]]


def knee(entries: Sequence[FrontEntry], objectives: Sequence[Measure]) -> FrontEntry:
    """The knee of the front of quality and the first cost; of ties the cheapest.

    Raises:
        InputError: the objectives have no cost.
    """
    quality, cost = _quality(objectives), next((goal for goal in objectives if not goal.is_quality), None)
    if cost is None:
        raise InputError(Option("knee"), "the objectives of the search contain no cost; name a profiled "
                                         f"{Option('device')}, or give {Option('top')} 1")
    optimal = front(entries, [quality, cost])
    points = as_costs([[entry.value(quality), entry.value(cost)] for entry in optimal],
                      [quality.maximise, cost.maximise])
    low, high = points.min(axis=0), points.max(axis=0)
    scaled = (points - low) / np.where(high > low, high - low, 1.0)
    distance = scaled.sum(axis=1)  # the ends are (0, 1) and (1, 0)
    return optimal[int(np.lexsort((points[:, 1], distance))[0])]


def _quality(objectives: Sequence[Measure]) -> Measure:
    return next(measure for measure in objectives if measure.is_quality)
