"""Shows a compressed subnet beside the original in a terminal."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.text import Text

from nas.core.subnet import Subnet
from nas.stages.compress.run import Compressed, size_on_disk
from nas.terminal.tables import table


def compress_table(found: Compressed) -> RenderableType:
    """The result beside the original for a reader."""
    names = list(found.after.facts.metrics)
    columns = (*names, "params", "bytes on disk", "of the original")
    rows = table("subnet", *columns, right=columns)
    before, after = (size_on_disk(each.path) for each in (found.before, found.after))
    for each, size in ((found.before, before), (found.after, after)):
        rows.add_row(each.path.resolve().name, *(_number(each, name) for name in names),
                     f"{each.facts.costs.get('params', math.nan):,.0f}", f"{size:,}", f"{size / before:.1%}")
    settings = found.after.facts.made[-1].settings
    summary = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in settings.items())
    says = (f"{summary}: {found.after.path}", f"export it: nas export {found.after.path} --format onnx")
    return Group(rows, Text("\n".join(says), no_wrap=True, overflow="ignore"))


def _number(subnet: Subnet, metric: str) -> str:
    value = subnet.facts.metrics.get(metric)
    return f"{math.nan if value is None else value:.4f}"
