"""Plot of the ranking report: trained loss over each predictor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from nas.core.rankings import GROUP, INHERITED, REPEAT, TRAINED
from nas.core.rankings import PREDICTOR_WORDS as WORDS
from nas.stages.rank.statistics import Comparison, RankingReport
from search_spaces import InputError
from search_spaces.files.writing import whole

ENDINGS = (".png", ".svg")
MARKS = {"spread": ("#0072B2", "o", "spread over the range of MACs"),
         "band": ("#D55E00", "D", "band: MACs within 10 % of each other")}
"""Colour, shape and words of each group; the colours are safe for colour-blind readers."""
SMALL = ("params", "macs")


def scatter(frame: pd.DataFrame, report: RankingReport, path: Path) -> None:
    """Draws the table of `nas.stages.rank.statistics.assess` and its report; the file is written atomically.

    Raises:
        InputError: the path ends in neither .png nor .svg.
    """
    if path.suffix not in ENDINGS:
        raise InputError(str(path), f"ends in {path.suffix!r}; allowed: {', '.join(ENDINGS)}")
    canvas = Canvas(figsize=(10, 6), layout="constrained")
    panels = canvas.subplot_mosaic([[INHERITED, SMALL[0]], [INHERITED, SMALL[1]]], width_ratios=[2, 1])
    finite = frame[np.isfinite(frame[[INHERITED, TRAINED]].astype(float)).all(axis=1)]
    for name, axes in panels.items():
        _panel(axes, finite, report, name)
    _second_trainings(panels[INHERITED], finite)
    panels[INHERITED].set_ylabel("validation loss after training from scratch")
    canvas.legend(*panels[INHERITED].get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False)
    canvas.supxlabel(_footnote(report), x=0.01, ha="left", fontsize=8.5, color="0.25")
    with whole(path) as temporary:
        canvas.savefig(temporary, format=path.suffix[1:], dpi=150)


def _panel(axes: Any, frame: pd.DataFrame, report: RankingReport, name: str) -> None:
    """Trained loss over one predictor."""
    size = 42 if name == INHERITED else 20
    for group, (colour, marker, words) in MARKS.items():
        rows = frame[frame[GROUP] == group]
        axes.scatter(rows[name], rows[TRAINED], s=size, c=colour, marker=marker, edgecolors="white", linewidths=0.6,
                     label=f"{words} (n = {len(rows)})", zorder=2)
    axes.set_xlabel(WORDS[name])
    axes.set_ylabel("trained loss")
    axes.set_title(f"all: {_tau(report.overall, name)}\nband: {_tau(report.band, name)}", loc="left", fontsize=9)
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if name in SMALL:
        _log_counts(axes)


def _log_counts(axes: Any) -> None:
    """Counts on a log axis as 200 k or 5 M instead of powers."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())


def _second_trainings(axes: Any, frame: pd.DataFrame) -> None:
    """A dash for the second training, connected to the first: shows the noise."""
    if REPEAT in frame:
        axes.vlines(frame[INHERITED], frame[TRAINED], frame[REPEAT], color="0.2", linewidth=1, zorder=3)
        axes.scatter(frame[INHERITED], frame[REPEAT], s=60, c="0.2", marker="_", linewidths=1.2, zorder=3)


def _footnote(report: RankingReport) -> str:
    """Explanation of the figures, and the maximum tau under noise."""
    lines = ["τ: Kendall's tau-b with the trained loss, positive is good, in brackets its 95 % bootstrap interval."]
    if report.noise and report.overall.ceiling:
        band = f" ({report.band.ceiling.perfect:.2f} in the band)" if report.band.ceiling else ""
        lines.append(f"Trained twice (dashes): {report.noise.repeats}; deviation between seeds "
                     f"{report.noise.sigma:.2g}, so a perfect predictor would reach τ of about "
                     f"{report.overall.ceiling.perfect:.2f}{band}.")
    if report.dropped:
        lines.append(f"Excluded because a loss is not finite: {report.dropped}.")
    return "\n".join(lines)


def _tau(compared: Comparison, name: str) -> str:
    figure = compared.figure(name)
    if figure.tau is None:
        return "τ undefined"
    return f"τ = {figure.tau:.2f} [{figure.low:.2f}, {figure.high:.2f}]".replace("-", "−")
