"""Draws the layers of one architecture for a terminal."""

from __future__ import annotations

from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nas.core.layer_rows import HEAD, NUMBERS, LayerRow, about, bar, layer_rows, number, share, stack_lines
from nas.core.resolve import Named
from nas.terminal.tables import ROOMY

BARS = HEAD.index("channels")
"""The column omitted in a narrow terminal."""
COLOURS = {"mixer": "cyan", "cross": "magenta", "ffn": "green"}


def draw(named: Named, seq_len: int, target_len: int | None, columns: int, ascii_only: bool) -> RenderableType:
    """One row per part of every layer: what it is, how wide, which slot, what it costs.

    Args:
        columns: of the terminal; a narrow one gets no bars and short numbers.
    """
    arch = named.arch
    heading = Text.assemble((named.name, "bold"), f"  key {arch.key[:12]}")
    return Group(heading, Text(about(arch, seq_len, target_len)), *map(Text, stack_lines(arch, named.space)),
                 _table(layer_rows(arch, seq_len, target_len), columns >= ROOMY, ascii_only))


def _table(rows: list[LayerRow], roomy: bool, ascii_only: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    for i, name in enumerate(HEAD):
        if roomy or i != BARS:
            side: Literal["left", "right"] = "right" if i in NUMBERS else "left"
            table.add_column(name, no_wrap=name != "block", overflow="fold", justify=side)
    params, macs = sum(row.params for row in rows), sum(row.macs for row in rows)
    widest, written = max(row.channels for row in rows), number if roomy else _short
    for row in rows:
        drawn = Text.assemble((bar(row.channels, widest, ascii_only), COLOURS.get(row.role, "")),
                              f" {row.channels}" if row.channels else "")
        table.add_row(row.label, row.slot, row.block, *([drawn] if roomy else []), written(row.params),
                      share(row.params, params), written(row.macs), share(row.macs, macs))
    table.add_row("total", "", "", *([""] if roomy else []), written(params), "", written(macs), "", style="bold")
    return table


def _short(value: int) -> str:
    """Three digits and a unit."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return str(value) if value else "-"
