"""Results of retrainings for a terminal and as JSON data."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nas.core.commands import shell_command
from nas.stages.retrain.run import RetrainResult
from nas.terminal.tables import table
from search_spaces.errors import Command


def result_data(result: RetrainResult) -> dict[str, Any]:
    """Data for JSON output."""
    return {"subnets": [{
        "key": subnet.after.arch.key, "folder": str(subnet.after.path), "from": str(subnet.before.path),
        "before": subnet.before.facts.metrics, "metrics": subnet.after.facts.metrics,
        "settings": subnet.after.facts.made[-1].settings} for subnet in result.subnets]}


def result_table(result: RetrainResult, hints: bool = True) -> RenderableType:
    """A table of every metric before and after, and the next command if requested."""
    names = list(result.subnets[0].after.facts.metrics)
    known = any(pair.before.facts.metrics for pair in result.subnets)  # a new head has no metrics yet
    columns = [column for name in names for column in ((f"{name} before", name) if known else (name,))]
    drawn = table("subnet", *columns, "folder", right=tuple(columns))
    for retrained in result.subnets:
        shown = (retrained.before, retrained.after) if known else (retrained.after,)
        values = [subnet.facts.metrics.get(name) for name in names for subnet in shown]
        drawn.add_row(retrained.before.path.resolve().name, *(f"{math.nan if value is None else value:.4f}"
                                                         for value in values), str(retrained.after.path))
    if not hints:
        return drawn
    export = shell_command(Command("export", str(result.subnets[0].after.path), format="onnx"))
    return Group(drawn, Text(f"export it: {export}", no_wrap=True, overflow="ignore"))
