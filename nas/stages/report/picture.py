"""Plots of the front: SVG and PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

from nas.core.measures import Measure
from nas.stages.report.judged import in_words
from nas.stages.report.shown import Point, Searched
from search_spaces.files.writing import whole

FRONT, FAINT, NAMED = "#c2410c", "#8a96a6", "#2f6fb3"
FIXED: Any = {"svg.hashsalt": "paretoformer", "svg.fonttype": "none", "font.family": "sans-serif"}
"""Settings for reproducible pictures; SVG keeps text as text."""


def write_front(searched: Searched, quality: Measure, cost: Measure, path: Path) -> list[Path]:
    """Draw a front over all evaluated architectures; returns the SVG and PNG files."""
    with matplotlib.rc_context(FIXED):
        canvas = Figure(figsize=(7.2, 4.5), layout="constrained")
        _draw(canvas.subplots(), searched, quality, cost)
        written = []
        for ending, about in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
            target = path.with_name(f"{path.name}.{ending}")
            with whole(target) as temporary:
                canvas.savefig(temporary, format=ending, dpi=160, metadata=about)
            written.append(target)
    return written


def _draw(axes: Any, searched: Searched, quality: Measure, cost: Measure) -> None:
    def spots(points: list[Point]) -> tuple[list[float], list[float]]:
        return [point.value(cost) for point in points], [point.value(quality) for point in points]

    front, named = searched.front(quality, cost), [point for point in searched.points if point.mark]
    axes.scatter(*spots(searched.points), s=14, c=FAINT, alpha=0.4, linewidths=0, label="evaluated")
    axes.step(*spots(front), where="post", color=FRONT, linewidth=1.2, zorder=2)
    axes.scatter(*spots(front), s=36, c=FRONT, edgecolors="white", linewidths=0.7, zorder=3, label="front")
    axes.scatter(*spots(named), s=44, c=NAMED, marker="D", edgecolors="white", linewidths=0.7, zorder=4)
    _scale(axes, cost, spots(searched.points)[0])
    for point in named:
        spot = (point.value(cost), point.value(quality))
        left = axes.transLimits.transform(axes.transScale.transform(spot))[0] > 0.5
        above = (point in front) == quality.maximise  # off the line of the front
        axes.annotate(_plain(point.mark), spot, xytext=(-4 if left else 4, 5 if above else -5),
                      textcoords="offset points", va="bottom" if above else "top", ha="right" if left else "left",
                      color="0.3", fontsize=9, zorder=5)
    marked = sum(point.unmeasured.get(cost.name, 0.0) > 0 for point in front)
    note = f"\n{marked} of {len(front)} on the front are partly interpolated or estimated" if marked else ""
    axes.set_xlabel(_plain(cost.label) + _unit(cost) + note)
    axes.set_ylabel(_plain(f"{quality.name} on {in_words(searched.examples)}"))
    axes.margins(y=0.09)
    axes.grid(color="0.92", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


def _scale(axes: Any, cost: Measure, values: list[float]) -> None:
    """A log axis if costs differ by large factors."""
    if max(values) > 8 * min(values) > 0:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(EngFormatter(unit=cost.kind.unit) if cost.kind.prefixes else
                                   FuncFormatter(lambda x, _: f"{x:g}"))


def _unit(cost: Measure) -> str:
    """The unit, if axis labels have none."""
    return "" if cost.kind.prefixes or not cost.kind.unit else f" ({cost.kind.unit})"


def _plain(text: str) -> str:
    """A text without math markup."""
    return text.replace("$", r"\$")
