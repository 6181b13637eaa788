"""Shows metrics of architectures in a terminal."""

from __future__ import annotations

from rich.table import Table

from nas.stages.evaluate.run import Metrics
from nas.terminal.tables import table


def metrics_table(metrics: Metrics) -> Table:
    """One row per architecture."""
    names = list(dict.fromkeys(name for values in metrics.values() for name in values))
    drawn = table("architecture", *names, right=tuple(names))
    for label, values in metrics.items():
        drawn.add_row(label, *(f"{values[name]:.4g}" for name in names))
    return drawn
