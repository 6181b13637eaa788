"""The progress bar of every command: live on a terminal, a line now and then in a file or a job's log."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

EVERY_S = 30.0
"""How often a bar that cannot move on its line is printed anew."""

MEMORY_S = 3600.0
"""How far back the speed is taken from, at most: a step may take minutes."""


class WorkBar(Progress):
    """A bar with what is done, some figures and the time left.

    Args:
        counts: whether "done/all" is shown; not where the amount is in seconds.
    """

    def __init__(self, console: Console, *, counts: bool = True) -> None:
        columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn()]
        columns += [MofNCompleteColumn()] if counts else []
        columns += [TextColumn("{task.fields[figures]}"), TimeRemainingColumn(elapsed_when_finished=True)]
        super().__init__(*columns, console=console, redirect_stderr=False, speed_estimate_period=MEMORY_S)
        self._printed = time.monotonic()

    def add_task(self, description: str, start: bool = True, total: float | None = 100.0, completed: int = 0,
                 visible: bool = True, **fields: Any) -> TaskID:
        """As of the parent; figures may be left out."""
        return super().add_task(description, start, total, completed, visible, **{"figures": "", **fields})

    def update(self, *arguments: Any, **changes: Any) -> None:
        """As of the parent."""
        super().update(*arguments, **changes)
        self._line()

    def advance(self, *arguments: Any, **changes: Any) -> None:
        """As of the parent."""
        super().advance(*arguments, **changes)
        self._line()

    def _line(self) -> None:
        """Where the bar is not live, print it; the parent prints it at the end."""
        console = self.console
        live = console.is_jupyter or (console.is_terminal and not console.is_dumb_terminal)
        if not live and time.monotonic() - self._printed >= EVERY_S and not self.finished:
            self._printed = time.monotonic()
            console.print(self.make_tasks_table([task for task in self.tasks if not task.finished]))
