"""What a stage reports while it runs. `nas.terminal.progress` shows it; nothing here prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nas.core.metrics import MetricRow
    from supernet.train.step import StepReport


class ProgressTask:
    """One piece of work with a known amount; this one is not shown."""

    def move(self, by: float = 1) -> None:
        """Advance by an amount."""

    def move_to(self, done: float) -> None:
        """Set the completed amount."""

    def say(self, figures: str) -> None:
        """Show these figures from now on."""

    def finish(self) -> None:
        """The work is done, possibly before its amount was reached."""


class TrainingProgress:
    """Observes a training, also one in other processes; this one is not shown."""

    def on_step(self, report: StepReport) -> None:
        """A step was taken."""

    def on_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """The model was evaluated after `step` steps."""

    def on_checkpoint(self, path: Path) -> None:
        """A checkpoint was written."""

    def on_rows(self, rows: Iterable[MetricRow]) -> None:
        """Another process wrote these rows to `metrics.csv`."""


class StageProgress:
    """Receives notes and the progress of a stage, and says whether the user asked to stop; this one shows nothing."""

    def note(self, text: str) -> None:
        """A sentence for the user."""

    def status(self, text: str) -> None:
        """What the stage is doing now; replaces the last status, and is not kept."""

    def show(self, result: object) -> None:
        """A result before the end of the stage; its view knows how to display it."""

    def task(self, what: str, total: float, done: float = 0, *, counts: bool = True) -> ProgressTask:
        """Begin a piece of work.

        Args:
            counts: whether the amount is a count; otherwise it is in seconds.
        """
        return ProgressTask()

    def training(self, what: str, steps: int, start: int = 0) -> TrainingProgress:
        """Begin a training; returns its observer."""
        return TrainingProgress()

    def finish(self) -> None:
        """The current pieces of work have ended, possibly before their amounts were reached."""

    @contextmanager
    def breakable(self) -> Iterator[None]:
        """Context for work that cannot stop cleanly: the first Ctrl-C aborts it."""
        yield

    def stop(self) -> bool:
        """Whether the user asked to stop."""
        return False
