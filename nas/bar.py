"""The progress bar of every command: live on a terminal, a line now and then in a file or a job's log."""

from __future__ import annotations

from time import monotonic

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


class WorkBar:
    """What is done of one or more works, some figures and the time left; drawn as a bar where it can move.

    Args:
        counts: whether "done/all" is shown; not where the amount is in seconds.
    """

    def __init__(self, console: Console, *, counts: bool = True) -> None:
        self._live = console.is_jupyter or (console.is_terminal and not console.is_dumb_terminal)
        columns: list[ProgressColumn] = [TextColumn("{task.description}")]
        columns += [BarColumn()] if self._live else []
        columns += [MofNCompleteColumn()] if counts else []
        columns += [TextColumn("{task.fields[figures]}"), TimeRemainingColumn(elapsed_when_finished=True)]
        self.progress = Progress(*columns, console=console, speed_estimate_period=MEMORY_S)
        self._printed = monotonic()

    def __enter__(self) -> WorkBar:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Show the bar."""
        self.progress.start()

    def stop(self) -> None:
        """Leave it as it is."""
        self.progress.stop()

    def add(self, what: str, total: float, done: int = 0, figures: str = "") -> TaskID:
        """One more work."""
        return self.progress.add_task(what, total=total, completed=done, figures=figures)

    def move(self, task: TaskID, by: float = 1) -> None:
        """So much more is done."""
        self.progress.advance(task, by)
        self._line()

    def move_to(self, task: TaskID, done: float) -> None:
        """So much is done in all."""
        self.progress.update(task, completed=done)
        self._line()

    def say(self, task: TaskID, figures: str) -> None:
        """Show these figures from now on."""
        self.progress.update(task, figures=figures)

    def finish(self, task: TaskID) -> None:
        """All is done, sooner than expected."""
        self.progress.update(task, completed=self.progress.tasks[task].total)

    def _line(self) -> None:
        """Where the bar cannot move, print it; Rich prints it at the end."""
        if not self._live and monotonic() - self._printed >= EVERY_S and not self.progress.finished:
            self._printed = monotonic()
            left = [task for task in self.progress.tasks if not task.finished]
            self.progress.console.print(self.progress.make_tasks_table(left))
