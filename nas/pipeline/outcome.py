"""Results of a pipeline: quality and latency of each model, and the duration of the stages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nas.core.marks import LEGEND
from nas.core.measures import MARK, Measure
from nas.core.subnet import Subnet
from nas.terminal.tables import table

A_YEAR_S = 365 * 24 * 3600.0


@dataclass(frozen=True)
class Done:
    """The end of a pipeline.

    Args:
        took: each stage and its seconds in this call.
        shipped: the folders of what was picked, as it is shipped.
        plain: the folders of what they are compared with.
    """

    took: Sequence[tuple[str, float]]
    shipped: Sequence[str]
    plain: Sequence[str]
    report: Path

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON output."""
        return {"stages": [{"stage": name, "seconds": seconds} for name, seconds in self.took],
                "shipped": list(self.shipped), "plain": list(self.plain), "report": str(self.report)}

    def table(self) -> RenderableType:
        """For a reader."""
        stages = table("stage", "took", right=("took",))
        for name, seconds in (*self.took, ("all", sum(seconds for _, seconds in self.took))):
            stages.add_row(name, shown_time(seconds) or "done before")
        shipped, plain = [*map(Subnet.open, self.shipped)], [*map(Subnet.open, self.plain)]
        said = [Text(line) for line in comparisons(shipped, plain)]
        return Group(models_table(shipped, plain), *said, stages)


def models_table(shipped: Sequence[Subnet], plain: Sequence[Subnet]) -> RenderableType:
    """Quality and costs of each, the smallest first; latencies as they were measured, beside the prediction."""
    both = sorted([*shipped, *plain], key=lambda each: each.facts.costs["params"])
    metrics = list(both[0].facts.metrics)
    latencies = list(dict.fromkeys(name for each in both for name in each.facts.measured))
    columns = [*metrics, "params", *(column for name in latencies for column in (name, "predicted"))]
    made = table("subnet", "", *columns, right=tuple(columns))
    for each in both:
        quality = [math.nan if (value := each.facts.metrics.get(name)) is None else value for name in metrics]
        made.add_row(each.path.name, "from scratch" if each in plain else "picked",
                     *(f"{value:.4f}" for value in quality), Measure("params").show(each.facts.costs["params"]),
                     *(text for name in latencies for text in _both(each, name)))
    marked = any(found.unmeasured_share for each in both for found in each.facts.measured.values())
    return Group(made, Text(LEGEND, style="yellow")) if marked else made


def comparisons(shipped: Sequence[Subnet], plain: Sequence[Subnet]) -> Iterator[str]:
    """Differences of each selected model to each plain one, in the first metric and the first latency."""
    if plain:
        yield "picked: found by the search; from scratch: the space's smallest and largest, trained as plain models"
    for each, other in ((each, other) for each in shipped for other in plain):
        says = [f"{name} {mine - theirs:+.3f}" for name, mine in list(each.facts.metrics.items())[:1]
                if mine is not None and (theirs := other.facts.metrics.get(name)) is not None]
        says += [f"{found.measured_ms / other.facts.measured[name].measured_ms:.2f} times its {name}"
                 for name, found in list(each.facts.measured.items())[:1] if name in other.facts.measured]
        if says:
            yield f"{each.path.name} against {other.path.name}: {', '.join(says)}"


def _both(subnet: Subnet, name: str) -> tuple[str, str]:
    found = subnet.facts.measured.get(name)
    if found is None:
        return "-", "-"
    mark = MARK if found.unmeasured_share else ""
    return f"{found.measured_ms:.3f} ms", "-" if found.predicted_ms is None else f"{mark}{found.predicted_ms:.3f} ms"


def shown_time(seconds: float) -> str:
    """For a reader; nothing where there is none."""
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds else ""
    return str(timedelta(seconds=round(seconds))) if seconds < A_YEAR_S else f"{seconds / A_YEAR_S:,.0f} years"
