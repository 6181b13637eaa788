"""The result of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nas.core.measures import Measure, parse_measure

COSTS = ("params", "macs", "weight_bytes")


@dataclass(frozen=True)
class ComparedModel:
    """The figures of one model.

    Args:
        label: its folder's name, or as much of its path as distinguishes it from the others.
        metrics: of its task; empty without data.
        costs: by the names of measures.
        latency_ms: by the names of measures, as measured.
    """

    label: str
    folder: Path
    metrics: Mapping[str, float | None]
    costs: Mapping[str, float]
    latency_ms: dict[str, float] = field(default_factory=dict)

    def values(self) -> dict[str, float | None]:
        """All figures by name."""
        return {**self.costs, **self.metrics, **self.latency_ms}


@dataclass(frozen=True)
class CompareResult:
    """The models in the order they were given.

    Args:
        metrics: of the task, each with whether more is better; none if no model has data.
        seq_len: sequence length for multiply-adds.
        notes: sentences for the user.
        waiting: instructions for devices without a connection.
        files: the table as CSV and JSON, and the plot.
    """

    models: Sequence[ComparedModel]
    task: str
    split: str
    metrics: Mapping[str, bool]
    latencies: Sequence[Measure]
    seq_len: int
    notes: Sequence[str]
    waiting: Sequence[str]
    files: Sequence[Path] = ()

    @property
    def measures(self) -> list[Measure]:
        """All measures that are shown for a model, in order."""
        costs = [parse_measure(name, {}) for name in COSTS]
        return [*costs, *(Measure(name, maximise=more) for name, more in self.metrics.items()), *self.latencies]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"task": self.task, "split": self.split, "seq_len": self.seq_len,
                "models": [{"model": model.label, "folder": str(model.folder), **model.values()}
                           for model in self.models],
                "notes": list(self.notes), "waiting": list(self.waiting), "files": list(map(str, self.files))}
