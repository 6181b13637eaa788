"""Shows an imported model and the next commands in a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nas.core.commands import shell_command
from nas.core.costs import count_params
from nas.stages.import_model.run import ImportResult
from search_spaces.errors import Command

SHOWN = 6
NEXT = {"lm": ("generate", "Once upon a time"), "classification": ("classify", "a text"),
        "translation": ("translate", "a sentence")}
"""By task, a command to try and its text."""


def import_table(result: ImportResult) -> RenderableType:
    """What was imported."""
    subnet, rows = result.subnet, Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    rows.add_row("class", result.cls)
    rows.add_row("parameters", f"{count_params(subnet.arch):,}")
    rows.add_row("differs from transformers by at most",
                 "not compared" if result.difference is None else f"{result.difference:.1e}")
    if result.left_out:
        more = len(result.left_out) - SHOWN
        rows.add_row("left out", ", ".join(result.left_out[:SHOWN]) + (f" and {more} more" if more > 0 else ""))
    notes = [f"model card: {subnet.path}/README.md"]
    if subnet.facts.task in NEXT:
        name, text = NEXT[subnet.facts.task]
        notes.append(f"try it: {shell_command(Command(name, str(subnet.path), text))}")
    notes.append(f"export it: {shell_command(Command('export', str(subnet.path), format='onnx'))}")
    return Group(Text(str(subnet.path), style="bold"), rows, Text("\n".join(notes), no_wrap=True, overflow="ignore"))
