"""Shows a pruned subnet beside the original in a terminal."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nas.core.commands import shell_command
from nas.core.costs import count_params
from nas.core.subnet import Subnet
from nas.stages.prune_to.run import PruneToResult
from nas.terminal.tables import table
from search_spaces.errors import Command


def prune_table(result: PruneToResult) -> RenderableType:
    """Both models, what was kept, and what to do next."""
    names = list(result.after.facts.metrics)
    measures = [limit.measure for limit, _ in result.limits if limit.measure.name != "params"]
    columns = (*names, "params", *(measure.name for measure in measures))
    rows = table("subnet", *columns, right=columns)
    for subnet in (result.before, result.after):
        costs = [subnet.facts.show(measure) if measure.name in subnet.facts.costs else "" for measure in measures]
        rows.add_row(subnet.path.resolve().name, *(_number(subnet, name) for name in names),
                     f"{count_params(subnet.arch):,}", *costs)
    kept = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, words in result.kept.items():
        kept.add_row(f"kept {name}", words)
    lines = [f"written to {result.after.path}"]
    if result.after.facts.run:
        command = Command("retrain", str(result.after.path), teacher=str(result.before.path))
        lines.append(f"retrain it: {shell_command(command)}")
    return Group(rows, kept, Text("\n".join(lines), no_wrap=True, overflow="ignore"))


def _number(subnet: Subnet, metric: str) -> str:
    value = subnet.facts.metrics.get(metric)
    return f"{math.nan if value is None else value:.4f}"
