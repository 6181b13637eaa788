"""The files of a comparison: the table as CSV and JSON, the plot as SVG and PNG."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter

from nas.core.measures import Measure
from nas.core.run_dir import write_json
from nas.stages.compare.result import ComparedModel, CompareResult
from search_spaces import InputError
from search_spaces.files.writing import whole

NAME = "compare"
FIXED: Any = {"svg.hashsalt": "paretoformer", "svg.fonttype": "none", "font.family": "sans-serif"}
"""Settings for reproducible pictures; SVG keeps text as text."""
COLOUR = "#c2410c"


def write_files(result: CompareResult, folder: Path) -> list[Path]:
    """Write all files, each atomically. Raises InputError if that fails."""
    table, data = folder / f"{NAME}.csv", folder / f"{NAME}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_table(result, table)
        write_json(data, {"schema_version": 1, **result.to_dict()})
        return [table, data, *_write_picture(result, folder)]
    except OSError as error:
        raise InputError(str(folder), f"cannot be written ({error.strerror})") from None


def _write_table(result: CompareResult, path: Path) -> None:
    columns = ["model", "folder", *(measure.name for measure in result.measures)]
    with whole(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({"model": model.label, "folder": str(model.folder), **model.values()}
                         for model in result.models)


def _write_picture(result: CompareResult, folder: Path) -> list[Path]:
    """Quality over cost, or the costs where no quality is known."""
    written = []
    with matplotlib.rc_context(FIXED):
        canvas = Figure(figsize=(7.2, 4.5), layout="constrained")
        quality, cost = quality_of(result), cost_of(result)
        if quality is None:
            _bars(canvas.subplots(), result, cost)
        else:
            _points(canvas.subplots(), result, quality, cost)
        for ending, about in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
            path = folder / f"{NAME}.{ending}"
            with whole(path) as temporary:
                canvas.savefig(temporary, format=ending, dpi=160, metadata=about)
            written.append(path)
    return written


def quality_of(result: CompareResult) -> Measure | None:
    """The metric on the plot: the first besides the loss, or the loss; None if nothing was evaluated."""
    names = list(result.metrics)
    name = next((name for name in names if name != "loss"), names[0] if names else None)
    return None if name is None else Measure(name, maximise=result.metrics[name])


def cost_of(result: CompareResult) -> Measure:
    """The cost on the plot: the latency on the first device, or the multiply-adds."""
    return next((measure for measure in result.measures if measure in result.latencies), result.measures[1])


def _points(axes: Any, result: CompareResult, quality: Measure, cost: Measure) -> None:
    shown = [(model, *spot) for model in result.models if (spot := _spot(model, quality, cost))]
    axes.scatter([x for _, x, _ in shown], [y for _, _, y in shown], s=40, c=COLOUR, zorder=3)
    for model, x, y in shown:
        axes.annotate(_plain(model.label), (x, y), xytext=(5, 5), textcoords="offset points", fontsize=9, color="0.3")
    axes.set_xlabel(_words(cost))
    axes.set_ylabel(_plain(f"{quality.name} on {result.split}"))
    axes.margins(x=0.2, y=0.15)
    axes.grid(color="0.92", linewidth=0.7)
    _finish(axes, cost)


def _spot(model: ComparedModel, quality: Measure, cost: Measure) -> tuple[float, float] | None:
    x, y = model.values().get(cost.name), model.values().get(quality.name)
    return None if x is None or y is None else (x, y)


def _bars(axes: Any, result: CompareResult, cost: Measure) -> None:
    axes.barh([_plain(model.label) for model in result.models],
              [model.values().get(cost.name, 0.0) for model in result.models], color=COLOUR)
    axes.invert_yaxis()
    axes.set_xlabel(_words(cost))
    _finish(axes, cost)


def _finish(axes: Any, cost: Measure) -> None:
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_formatter(EngFormatter(unit=cost.kind.unit) if cost.kind.prefixes else
                                   FuncFormatter(lambda x, _: f"{x:g}"))


def _words(cost: Measure) -> str:
    unit = "" if cost.kind.prefixes or not cost.kind.unit else f" ({cost.kind.unit})"
    return _plain(f"{cost.label}{unit}")


def _plain(text: str) -> str:
    """A text without math markup."""
    return text.replace("$", r"\$")
