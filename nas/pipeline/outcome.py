"""Results of a pipeline: quality and latency of each model, and the duration of the stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from nas.core.subnet import Subnet

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


def comparisons(shipped: Sequence[Subnet], plain: Sequence[Subnet]) -> Iterator[str]:
    """Differences between each selected model and each plain one, in the first metric and the first latency."""
    if plain:
        yield "picked: found by the search; from scratch: smallest and largest of the space, trained alone"
    for subnet, other in ((subnet, other) for subnet in shipped for other in plain):
        differences = [f"{name} {mine - theirs:+.3f}" for name, mine in list(subnet.facts.metrics.items())[:1]
                       if mine is not None and (theirs := other.facts.metrics.get(name)) is not None]
        differences += [f"{measured.measured_ms / other.facts.measured[name].measured_ms:.2f} times its {name}"
                        for name, measured in list(subnet.facts.measured.items())[:1] if name in other.facts.measured]
        if differences:
            yield f"{subnet.path.name} against {other.path.name}: {', '.join(differences)}"


def shown_time(seconds: float) -> str:
    """A duration as text; empty if there is none."""
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds else ""
    return str(timedelta(seconds=round(seconds))) if seconds < A_YEAR_S else f"{seconds / A_YEAR_S:,.0f} years"
