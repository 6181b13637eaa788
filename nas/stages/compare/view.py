"""Shows a comparison in a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from nas.core.measures import Measure
from nas.stages.compare.result import ComparedModel, CompareResult
from nas.terminal.tables import table


def compare_table(result: CompareResult) -> RenderableType:
    """A row per model, then notes and files."""
    measures = result.measures
    heads = [measure.name for measure in measures]
    rows = table("model", *heads, right=heads, minor=("macro_f1", "weight_bytes"))
    for model in result.models:
        rows.add_row(model.label, *(_cell(model, measure, result.models[0]) for measure in measures))
    lengths = f"macs: for {result.seq_len} tokens"
    judged = f"; metrics: {result.task}, {result.split} data" if result.metrics else ""
    files = [f"table and plot: {', '.join(str(path) for path in result.files)}"] if result.files else []
    return Group(rows, *map(Text, (lengths + judged, *(f"note: {note}" for note in result.notes), *result.waiting,
                                   *files)))


def _cell(model: ComparedModel, measure: Measure, first: ComparedModel) -> str:
    """A figure; a latency with its speed-up over the first model."""
    value, whole = model.values().get(measure.name), first.values().get(measure.name)
    if value is None:
        return "-"
    if measure.is_quality:
        return f"{value:.4g}"
    faster = f" ({whole / value:.2g}x)" if measure.device and whole and model is not first else ""
    return measure.show(value) + faster
