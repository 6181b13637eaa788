"""Shows a compressed subnet beside the original in a terminal."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.text import Text

from nas.core.commands import shell_command
from nas.core.subnet import Subnet
from nas.stages.compress.run import Compressed, size_on_disk
from nas.terminal.tables import table
from search_spaces.errors import Command


def compress_table(result: Compressed) -> RenderableType:
    """A table of the result beside the original."""
    names = list(result.after.facts.metrics)
    columns = (*names, "params", "bytes on disk", "of the original")
    rows = table("subnet", *columns, right=columns)
    before, after = (size_on_disk(subnet.path) for subnet in (result.before, result.after))
    for subnet, size in ((result.before, before), (result.after, after)):
        rows.add_row(subnet.path.resolve().name, *(_number(subnet, name) for name in names),
                     f"{subnet.facts.costs.get('params', math.nan):,.0f}", f"{size:,}", f"{size / before:.1%}")
    settings = result.after.facts.made[-1].settings
    summary = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in settings.items())
    export = shell_command(Command("export", str(result.after.path), format="onnx"))
    notes = (f"{summary}: {result.after.path}", f"export it: {export}")
    return Group(rows, Text("\n".join(notes), no_wrap=True, overflow="ignore"))


def _number(subnet: Subnet, metric: str) -> str:
    value = subnet.facts.metrics.get(metric)
    return f"{math.nan if value is None else value:.4f}"
