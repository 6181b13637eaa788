"""Shows a pipeline in a terminal: its plan, the progress and results of its stages, and its outcome."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from nas.core.commands import command_line
from nas.core.marks import LEGEND
from nas.core.measures import MARK, Measure
from nas.core.progress import StageProgress
from nas.core.subnet import Subnet
from nas.pipeline.outcome import Done, comparisons, shown_time
from nas.pipeline.run import PipelinePlan, PipelineProgress
from nas.stages.export.run import Exported
from nas.stages.export.view import export_table
from nas.stages.extract.run import ExtractResult
from nas.stages.extract.view import extract_table
from nas.stages.measure.run import MeasureResult
from nas.stages.measure.view import measure_table
from nas.stages.profile.run import ProfileResult
from nas.stages.profile.view import profile_table
from nas.stages.retrain.run import RetrainResult
from nas.stages.retrain.view import result_table
from nas.stages.search.feasibility import Feasibility
from nas.stages.search.run import SearchResult
from nas.stages.search.view import feasibility_table, search_table
from nas.stages.train.run import TrainResult
from nas.stages.train.view import summary
from nas.terminal.progress import TerminalProgress
from nas.terminal.tables import table

VIEWS: dict[type, Callable[[Any], RenderableType]] = {
    Feasibility: feasibility_table, SearchResult: search_table, ProfileResult: profile_table, Exported: export_table,
    MeasureResult: measure_table, ExtractResult: partial(extract_table, hints=False),
    RetrainResult: partial(result_table, hints=False), TrainResult: lambda result: _lines(summary(result, hints=False))}
"""How the result of a stage is drawn, by its type; without hints at the commands that the pipeline runs anyway."""


class TerminalPipeline(PipelineProgress):
    """Prints the name of each stage and shows its progress."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def begin(self, text: str) -> None:
        """See PipelineProgress."""
        self.console.print(Text(text, style="bold"))

    def stage(self) -> AbstractContextManager[StageProgress]:
        """See PipelineProgress."""
        return TerminalProgress(self.console, lambda result: VIEWS[type(result)](result))


def _lines(texts: Iterable[str]) -> RenderableType:
    """Sentences of a view that are not wrapped."""
    return Text(command_line("\n".join(texts)), no_wrap=True, overflow="ignore")


def plan_data(plan: PipelinePlan) -> dict[str, Any]:
    """The plan for JSON output."""
    notes: list[str] = []
    rows = plan.rows(notes.append)
    return {"plan": rows, "seconds": sum(row["seconds"] for row in rows), "notes": notes}


def plan_table(plan: PipelinePlan) -> RenderableType:
    """The plan as a table."""
    result, total, notes = table("stage", "action", "about", right=("about",)), 0.0, list[str]()
    for row in plan.rows(notes.append):
        result.add_row(row["stage"], row["does"], shown_time(row["seconds"]))
        total += row["seconds"]
    result.add_row("total", "", shown_time(total) or "nothing to do")
    return Group(result, *(Text(note, style="yellow") for note in notes))


def done_table(done: Done) -> RenderableType:
    """A table of the models that a pipeline made, and the duration of its stages."""
    stages = table("stage", "took", right=("took",))
    for name, seconds in (*done.took, ("all", sum(seconds for _, seconds in done.took))):
        stages.add_row(name, shown_time(seconds) or "already done")
    shipped, plain = [*map(Subnet.open, done.shipped)], [*map(Subnet.open, done.plain)]
    notes = [Text(line) for line in comparisons(shipped, plain)]
    return Group(models_table(shipped, plain), *notes, stages)


def models_table(shipped: Sequence[Subnet], plain: Sequence[Subnet]) -> RenderableType:
    """Quality and costs of each, the smallest first; latencies as they were measured, beside the prediction."""
    both = sorted([*shipped, *plain], key=lambda subnet: subnet.facts.costs["params"])
    metrics = list(both[0].facts.metrics)
    latencies = list(dict.fromkeys(name for subnet in both for name in subnet.facts.measured))
    columns = [*metrics, "params", *(column for name in latencies for column in (name, "predicted"))]
    result = table("subnet", "", *columns, right=tuple(columns))
    for subnet in both:
        quality = [math.nan if (value := subnet.facts.metrics.get(name)) is None else value for name in metrics]
        result.add_row(subnet.path.name, "from scratch" if subnet in plain else "picked",
                       *(f"{value:.4f}" for value in quality), Measure("params").show(subnet.facts.costs["params"]),
                       *(text for name in latencies for text in _both(subnet, name)))
    marked = any(measured.unmeasured_share for subnet in both for measured in subnet.facts.measured.values())
    return Group(result, Text(LEGEND, style="yellow")) if marked else result


def _both(subnet: Subnet, name: str) -> tuple[str, str]:
    measured = subnet.facts.measured.get(name)
    if measured is None:
        return "-", "-"
    mark = MARK if measured.unmeasured_share else ""
    predicted = "-" if measured.predicted_ms is None else f"{mark}{measured.predicted_ms:.3f} ms"
    return f"{measured.measured_ms:.3f} ms", predicted
