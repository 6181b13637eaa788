"""The data of a report: written by `collect`, read by the page, the plots and the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nas.core.fronts import FrontEntry
from nas.core.measures import Measure
from nas.core.metrics import LOSS
from search_spaces import Architecture
from supernet.train.teaching import LOSSES


@dataclass(frozen=True, kw_only=True)
class Point(FrontEntry):
    """An architecture that a search evaluated.

    Args:
        trial: the number of its first trial.
        estimated: its evaluation was stopped early, so it is on no front.
        allowed: it is within all limits of the search.
        mark: its label besides its key: smallest, largest or published names.
    """

    trial: int
    estimated: bool
    allowed: bool
    mark: str = ""


@dataclass(frozen=True)
class Importance:
    """How much of the variance of a quality each dimension explains on held-out trials.

    Args:
        r2: share that all dimensions together explain on held-out trials; 1 is all, 0 nothing.
        shares: by dimension, the greatest first.
        effects: by dimension and value, what choosing it everywhere adds to the quality.
    """

    metric: str
    n: int
    r2: float
    shares: Mapping[str, float]
    effects: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Searched:
    """Results of a search.

    Args:
        fronts: by the names of a quality and a cost, the indices of the Pareto-optimal points.
        hypervolume: after each evaluated trial.
        examples: number of validation examples of each evaluation; None for all of them.
    """

    points: list[Point]
    qualities: list[Measure]
    costs: list[Measure]
    objectives: tuple[Measure, ...]
    limits: tuple[str, ...]
    fronts: Mapping[tuple[str, str], list[int]]
    hypervolume: list[float]
    counts: Mapping[str, int]
    date: str
    importance: Importance | None
    examples: int | None = None

    @property
    def shown(self) -> tuple[Measure, Measure]:
        """The quality and the cost shown first: the first objectives of the search."""
        cost = next((measure for measure in self.objectives if not measure.is_quality), self.costs[0])
        return next(measure for measure in self.objectives if measure.is_quality), cost

    def front(self, quality: Measure, cost: Measure) -> list[Point]:
        """The front of a quality and a cost, by cost."""
        return [self.points[i] for i in self.fronts[quality.name, cost.name]]


@dataclass(frozen=True)
class FrontKind:
    """How often a kind of block is on a front.

    Args:
        on_front: architectures of the front with the kind, of `evaluated` ones.
        least_cost: the least cost of those on the front; None if there are none.
        most_cost: the greatest.
        best_quality: the best quality of those on the front.
    """

    role: str
    kind: str
    on_front: int
    evaluated: int
    least_cost: float | None
    most_cost: float | None
    best_quality: float | None


@dataclass(frozen=True)
class TimedPart:
    """The milliseconds of one step of an architecture: `place` is its layer, or its role outside the layers.

    Args:
        source: measured, interpolated or estimated; empty for the overhead.
        style: how drawings show it.
    """

    place: str
    role: str
    kind: str
    ms: float
    source: str = ""
    style: str = "overhead"


@dataclass(frozen=True)
class Gap:
    """A latency that was predicted and measured; `source` is a check of the profile, or a subnet's name.

    Args:
        unmeasured: the share of the prediction that is based on interpolated unit latencies, if known.
    """

    measure: str
    source: str
    key: str
    predicted_ms: float
    measured_ms: float
    unmeasured: float = 0.0


@dataclass(frozen=True)
class Devices:
    """Data from the profiles of a run's devices.

    Args:
        parts: by the name of a latency and the key of an architecture.
        checks: the contents of their `check-*.json`, with the device and the verdict.
        notes: why a device has no latency breakdown.
    """

    parts: dict[str, Mapping[str, list[TimedPart]]] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SubnetStep:
    """One step of a subnet's history, and its quality afterwards."""

    stage: str
    settings: str
    metrics: Mapping[str, float | None]


@dataclass(frozen=True)
class Picked:
    """A subnet of the run."""

    name: str
    arch: Architecture
    steps: list[SubnetStep]
    costs: Mapping[str, float]
    measured: Mapping[str, tuple[float | None, float]]
    """Predicted and measured milliseconds, by the names of latencies."""
    exports: tuple[str, ...]
    unmeasured: Mapping[str, float] = field(default_factory=dict)
    """By the name of a latency, the share of it that is based on interpolated or estimated unit latencies."""
    trained: str = ""
    """Initial weights of its last retraining: inherit, scratch, or empty."""


@dataclass(frozen=True)
class Curve:
    """One metric of a training over its steps.

    Args:
        training: its folder; empty for the supernet's.
        model: the folder of the model that it makes; empty for the supernet's.
        examples: number of validation examples of each evaluation; None for all of them.
    """

    training: str
    metric: str
    steps: list[int]
    values: list[float | None]
    model: str = ""
    examples: int | None = None

    @property
    def is_distillation(self) -> bool:
        """Whether it is a distillation loss, not a loss on labels."""
        return bool(self.training) and self.metric in {f"{LOSS}{part}" for part in LOSSES}


@dataclass(frozen=True)
class Ranked:
    """The ranking report: its table, and the figures of `ranking.json`."""

    rows: list[dict[str, Any]]
    figures: Mapping[str, Any]


@dataclass(frozen=True)
class RunReport:
    """All data of a run's report.

    Args:
        slots: how many slots each stack of the space has.
        files: the run's own small files, by name.
    """

    run: str
    space: str
    task: str
    metrics: Mapping[str, bool]
    slots: Mapping[str, int]
    searched: Searched | None
    devices: Devices
    picked: list[Picked]
    curves: list[Curve]
    ranked: Ranked | None
    files: Mapping[str, str]

    def architectures(self) -> dict[str, Architecture]:
        """The architectures to draw, by key: those on a front or with a label, and the subnets."""
        archs = {subnet.arch.key: subnet.arch for subnet in self.picked}
        if self.searched:
            points = self.searched.points
            places = sorted({i for front in self.searched.fronts.values() for i in front})
            chosen = [*(points[i] for i in places), *(point for point in points if point.mark)]
            archs = {point.arch.key: point.arch for point in chosen} | archs
        return archs
