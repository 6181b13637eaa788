"""Shows extracted subnets and the next commands in a terminal."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.text import Text

from nas.core.commands import shell_command
from nas.core.marks import LEGEND, is_marked
from nas.stages.extract.run import ExtractResult
from nas.terminal.tables import table
from search_spaces.errors import Command


def extract_table(result: ExtractResult, hints: bool = True) -> RenderableType:
    """A row per subnet, and the next commands if requested."""
    subnets = result.subnets
    metrics = list(subnets[0].facts.metrics)
    names = [*metrics, *(measure.name for measure in result.columns)]
    rows = table("key", *names, right=tuple(names))
    for subnet in subnets:
        quality = [math.nan if (value := subnet.facts.metrics.get(name)) is None else value for name in metrics]
        rows.add_row(subnet.arch.key[:12], *(f"{value:.4f}" for value in quality),
                     *(subnet.facts.show(measure) for measure in result.columns))
    first = subnets[0].path
    notes = [LEGEND] if is_marked([subnet.facts.unmeasured_share for subnet in subnets], result.columns) else []
    notes += [f"unchanged: {', '.join(sorted(key[:12] for key in result.kept))}"] if result.kept else []
    notes += [f"model card: {first}/README.md"]
    if hints:
        notes += [f"retrain it: {shell_command(Command('retrain', str(first)))}",
                  f"export it: {shell_command(Command('export', str(first), format='onnx'))}"]
    return Group(Text(f"{first.parent}/, a folder for each key", style="bold"), rows,
                 Text("\n".join(notes), no_wrap=True, overflow="ignore"))
