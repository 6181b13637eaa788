"""Measures as users name them, and limits on them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from nas.core.measures._base import MeasureKind, QualityKind
from nas.core.measures._registry import registry

MARK = "~"
"""Prefix of a value that is partly based on unmeasured units."""


@dataclass(frozen=True)
class Measure:
    """One number of an architecture.

    Args:
        base_name: the name of an installed measure, or a metric of the task.
        device: of a measure that belongs to one.
        phase: of a measure that has phases.
        maximise: whether more is better.
    """

    base_name: str
    device: str | None = None
    phase: str = "prefill"
    maximise: bool = False

    @property
    def name(self) -> str:
        """As the user writes it."""
        phase = "" if self.phase == "prefill" else f":{self.phase}"
        return self.base_name if self.device is None else f"{self.base_name}:{self.device}{phase}"

    @property
    def label(self) -> str:
        """Its name in tables and plots."""
        where = f" on {self.device}" if self.device else ""
        return f"{self.kind.label}{where}{'' if self.phase == 'prefill' else f' ({self.phase})'}"

    @property
    def superlative(self) -> str:
        """The architecture that is best in it, in words."""
        where = f" on {self.device}" if self.device else ""
        best = self.kind.superlative
        return f"{best}{where}" if best else f"{'highest' if self.maximise else 'lowest'} {self.label}"

    @property
    def kind(self) -> MeasureKind:
        """The declaration of its base name: how values are computed, parsed and shown."""
        return registry().get(self.base_name) or QualityKind(self.base_name)

    @property
    def is_quality(self) -> bool:
        """Whether it must be evaluated; other measures are looked up."""
        return self.base_name not in registry()

    def show(self, value: float, unmeasured: float = 0.0) -> str:
        """A value as text, with a mark if a share of it was not measured."""
        return f"{MARK if unmeasured > 0 else ''}{self.kind.show(value)}"

    def show_bound(self, value: float, above: bool) -> str:
        """A value as text that is still met when used as a limit: rounded up, or down if `above`."""
        return self.kind.show_bound(value, above)


@dataclass(frozen=True)
class Limit:
    """An upper or lower bound of a measure."""

    measure: Measure
    value: float
    at_least: bool = False

    def excess(self, value: float) -> float:
        """Relative excess of a value over the limit; the limit is met if this is at most 0."""
        over = (self.value - value) if self.at_least else (value - self.value)
        return over / abs(self.value) if self.value else over

    def holds(self, value: float) -> bool:
        """Whether a value is allowed."""
        return self.excess(value) <= 0

    def __str__(self) -> str:
        return f"{self.measure.name} {'>=' if self.at_least else '<='} {self.measure.show(self.value)}"


def devices_of(measures: Collection[Measure]) -> tuple[str, ...]:
    """The devices that measures name, in their order."""
    return tuple(dict.fromkeys(measure.device for measure in measures if measure.device is not None))


def summarised() -> list[Measure]:
    """The measures that tables of architectures always show."""
    return [Measure(kind.name, maximise=kind.maximise) for kind in registry().values() if kind.summarised]
