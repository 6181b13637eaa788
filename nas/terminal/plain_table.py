"""Tables that stay readable in a narrow terminal: words are not broken, and minor columns are dropped first."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

GAP = 2
"""Columns between two cells."""
MOST = 10_000
"""A width that fits everything."""


class PlainTable(Table):
    """A table without lines. Where it is too wide, texts are wrapped between words, never within one or in a name.

    Args:
        right: columns of numbers, which are aligned on the right.
        keep: columns of names, which are never wrapped; by default the first one.
        minor: columns that are left out, the last one first, where names and words do not fit otherwise.
    """

    def __init__(self, *columns: str, right: Sequence[str] = (), keep: Sequence[str] | None = None,
                 minor: Sequence[str] = ()) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
        self.names = {i for i, name in enumerate(columns) if (i == 0 if keep is None else name in keep)}
        self.minor = tuple(minor)
        for name in columns:
            self.add_column(name, justify="right" if name in right else "left", overflow="fold")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        fitted = copy.copy(self)
        fitted.columns = self._fitted(options.max_width)
        return super(PlainTable, fitted).__rich_console__(console, options)

    def _fitted(self, width: int) -> list[Column]:
        """The columns that fit, with widths where they are narrower than their texts; all of them where none do."""
        for n_left_out in range(len(self.minor) + 1):
            left_out = self.minor[len(self.minor) - n_left_out:]
            kept = [i for i, column in enumerate(self.columns) if column.header not in left_out]
            room = width - GAP * (len(kept) - 1)
            least = [_longest(self.columns[i], "\n" if i in self.names else None) for i in kept]
            most = [_longest(self.columns[i], "\n") for i in kept]
            if sum(least) <= room:
                widths = _shared(least, most, room)
                return [_placed(self.columns[i], place, width) for place, (i, width) in enumerate(zip(kept, widths))]
        return self.columns


def _longest(column: Column, between: str | None) -> int:
    """Of the words of a column, or of its lines."""
    texts = [_plain(cell) for cell in (column.header, *column.cells)]
    return max(Text(part).cell_len for text in texts for part in text.split(between) or [""])


def _plain(cell: Any) -> str:
    return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain


def _shared(least: list[int], most: list[int], room: int) -> list[int]:
    """Column widths: as needed, reducing the widest if there is not enough room."""
    widths = list(most)
    while sum(widths) > room:
        widest = max((i for i in range(len(widths)) if widths[i] > least[i]), key=lambda i: widths[i])
        widths[widest] -= 1
    return widths


def _placed(column: Column, place: int, width: int) -> Column:
    """The column at this place among those that are kept: Rich pads the first and the last one otherwise."""
    placed = copy.copy(column)
    placed._index, placed.width = place, width
    return placed


class FirstThatFits:
    """Prints the first of several renderables that needs no more columns than there are, or else the last one."""

    def __init__(self, *ways: RenderableType) -> None:
        self.ways = ways

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        roomy = options.update(width=MOST)
        fits = (way for way in self.ways if Measurement.get(console, roomy, way).maximum <= options.max_width)
        yield next(fits, self.ways[-1])


class ForWidth:
    """Prints one renderable in a terminal of at least `columns` columns, another one in a narrower terminal."""

    def __init__(self, columns: int, wide: RenderableType, narrow: RenderableType) -> None:
        self.columns, self.wide, self.narrow = columns, wide, narrow

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.wide if options.max_width >= self.columns else self.narrow
