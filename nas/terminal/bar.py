"""The progress bar of every command: live on a terminal, occasional lines in a file or a job's log."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from nas.core.progress import ProgressTask

ROOMY, WIDE, NARROW = 112, 40, 10
"""Minimum terminal width of a wide bar, and the widths of wide and narrow bars."""
INDENT, MOST = 2, 10_000
"""Indentation of figures below a bar; a width that fits everything."""
EVERY_S = 30.0
"""Seconds between printed lines of a bar that is not live."""
MEMORY_S = 3600.0
"""Maximum window for the speed, in seconds: a step may take minutes."""


class _Works(Progress):
    """Bars with their figures next to them, or below in a narrow terminal; nothing is truncated."""

    def make_tasks_table(self, tasks: Iterable[Task]) -> Table:
        """All tasks, one below the other."""
        works = list(tasks)
        beside = super().make_tasks_table(works)
        if not works:  # Rich is not set up yet
            return beside
        room = self.console.options.update(width=MOST)
        if Measurement.get(self.console, room, beside).maximum <= self.console.width:
            return beside
        result = Table.grid()
        for work in works:
            line = Table.grid(padding=(0, 1))
            line.add_row(*(column(work) for column in self.columns
                           if isinstance(column, ProgressColumn) and not isinstance(column, _Figures)))
            result.add_row(line)
            result.add_row(Padding(Text(str(work.fields["figures"])), (0, 0, 0, INDENT)))
        return result


class _Figures(TextColumn):
    """The figures next to a bar."""

    def __init__(self) -> None:
        super().__init__("{task.fields[figures]}")


class WorkBar:
    """Progress of one or more tasks, with figures and the time left; a live bar if possible.

    Args:
        counts: whether "done/all" is shown; not where the amount is in seconds.
    """

    def __init__(self, console: Console, *, counts: bool = True) -> None:
        self.counts = counts
        self._live = console.is_jupyter or (console.is_terminal and not console.is_dumb_terminal)
        columns: list[ProgressColumn] = [TextColumn("{task.description}")]
        columns += [BarColumn(WIDE if console.width >= ROOMY else NARROW)] if self._live else []
        columns += [MofNCompleteColumn()] if counts else []
        columns += [_Figures(), TimeRemainingColumn(elapsed_when_finished=True)]
        self.progress = _Works(*columns, console=console, speed_estimate_period=MEMORY_S)
        self._printed = monotonic()

    def add(self, what: str, total: float, done: int = 0) -> BarTask:
        """Add a task."""
        return BarTask(self, self.progress.add_task(what, total=total, completed=done, figures=""))

    def line(self) -> None:
        """If the bar is not live, print it; Rich prints it at the end."""
        if not self._live and monotonic() - self._printed >= EVERY_S and not self.progress.finished:
            self._printed = monotonic()
            left = [task for task in self.progress.tasks if not task.finished]
            self.progress.console.print(self.progress.make_tasks_table(left))


class BarTask(ProgressTask):
    """A piece of work on a bar."""

    def __init__(self, bar: WorkBar, number: TaskID) -> None:
        self.bar, self.number = bar, number

    def move(self, by: float = 1) -> None:
        self.bar.progress.advance(self.number, by)
        self.bar.line()

    def move_to(self, done: float) -> None:
        self.bar.progress.update(self.number, completed=done)
        self.bar.line()

    def say(self, figures: str) -> None:
        self.bar.progress.update(self.number, figures=figures)

    def finish(self) -> None:
        self.bar.progress.update(self.number, completed=self.bar.progress.tasks[self.number].total)
