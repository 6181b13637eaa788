"""Shows the progress of a stage in a terminal, and turns Ctrl-C into a request to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.status import Status

from nas.core.commands import command_line
from nas.core.metrics import LOSS, Clock, MetricRow
from nas.core.progress import ProgressTask, StageProgress, TrainingProgress
from nas.core.stopping import Stopped, signals_to
from nas.terminal.bar import WorkBar
from nas.terminal.text import PlainConsole

if TYPE_CHECKING:
    from supernet.train.step import StepReport


class TerminalProgress(StageProgress):
    """Prints notes and draws a bar for each piece of work; Ctrl-C asks the stage to stop.

    Used as a context manager: `with TerminalProgress(console) as progress: result = run(request, progress)`.

    Args:
        view: renders intermediate results; without it, none are shown.
    """

    def __init__(self, console: Console, view: Callable[[Any], RenderableType] | None = None) -> None:
        self.console, self._view, self._stack = console, view, ExitStack()
        self._request = StopRequest()
        self._bar: WorkBar | None = None
        self._status: Status | None = None

    def __enter__(self) -> TerminalProgress:
        self._request = self._stack.enter_context(interruptible(self.console))
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self.finish()
        self._stack.close()
        if isinstance(error, Stopped):
            self.note(error.marked)

    def note(self, text: str) -> None:
        self.console.print(command_line(text), markup=False, soft_wrap=True)

    def status(self, text: str) -> None:
        """See StageProgress. Shown on a terminal only."""
        if self._status is None:
            self.finish()
            self._status = self.console.status(command_line(text))
            self._status.start()
        else:
            self._status.update(command_line(text))

    def show(self, result: object) -> None:
        if self._view is not None:
            self.console.print(self._view(result))

    def task(self, what: str, total: float, done: float = 0, *, counts: bool = True) -> ProgressTask:
        """See StageProgress. Pieces of work that run at the same time share a group of bars."""
        if self._bar is None or self._bar.counts != counts or self._bar.progress.finished:
            self.finish()
            self._bar = WorkBar(self.console, counts=counts)
            self._bar.progress.start()
        return self._bar.add(what, total, int(done))

    def training(self, what: str, steps: int, start: int = 0) -> TrainingProgress:
        self.finish()
        bar = Bar(self.console, steps, start, what)
        self._bar = bar.bar
        self._bar.progress.start()
        return bar

    def stop(self) -> bool:
        return self._request()

    @contextmanager
    def breakable(self) -> Iterator[None]:
        self._request.breaks_off = True
        try:
            yield
        finally:
            self._request.breaks_off = False

    def finish(self) -> None:
        if self._bar is not None:
            self._bar.progress.stop()
        if self._status is not None:
            self._status.stop()
        self._bar = self._status = None


class Bar(TrainingProgress):
    """A progress bar with the losses, tokens per second and the time left."""

    def __init__(self, console: Console, steps: int, start: int, what: str = "training") -> None:
        self.bar = WorkBar(console)
        self.task = self.bar.add(what, steps, start)
        self.clock, self.rate, self.valid = Clock(), 0.0, ""

    def on_step(self, report: StepReport) -> None:
        self.clock.took_a_step()
        rate = report.tokens / self.clock.taken()
        self.rate = rate if self.rate == 0 else 0.9 * self.rate + 0.1 * rate
        self._show(report.step + 1, dict(zip(report.names, report.losses)))

    def on_rows(self, rows: Iterable[MetricRow]) -> None:
        values: dict[str, float] = {}
        step = 0
        for row in rows:
            step, values[row.metric] = max(step, row.step), row.value
        if values:
            self.rate = values.get("train/tokens_per_s", 0.0)
            self.valid = f", valid {values['valid/loss']:.3f}" if "valid/loss" in values else ""
            losses = {name: value for name, value in values.items() if name.startswith(LOSS)}
            self._show(step, {name.removeprefix(LOSS): value for name, value in losses.items()})

    def _show(self, step: int, losses: Mapping[str, float]) -> None:
        shown = " / ".join(f"{loss:.3f} ({name})" for name, loss in losses.items())
        self.task.say(f"loss {shown}{self.valid}, {self.rate:,.0f} tokens/s")
        self.task.move_to(step)

    def on_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show the validation loss from now on."""
        self.valid = f", valid {metrics['loss']:.3f}"
        self.clock.did_something_else()

    def on_checkpoint(self, path: Path) -> None:
        """Exclude the time of checkpoints."""
        self.clock.did_something_else()


@dataclass
class StopRequest:
    """Whether the user asked to stop.

    Args:
        breaks_off: whether the first signal aborts the work.
    """

    breaks_off: bool = False
    received: bool = False

    def __call__(self) -> bool:
        """Whether a signal came."""
        return self.received


@contextmanager
def interruptible(console: Console | None = None) -> Iterator[StopRequest]:
    """Ctrl-C, SIGTERM and SIGHUP request a stop, with a message; a second one aborts."""
    request = StopRequest()
    console = console or PlainConsole(stderr=True)
    tell = threading.Thread(target=console.print, args=("stopping; press Ctrl-C again to abort",))

    def ask(number: int, frame: FrameType | None) -> None:
        if request.received or request.breaks_off:
            raise KeyboardInterrupt
        request.received = True
        tell.start()  # the main thread may be in the middle of printing

    try:
        with signals_to(ask):
            yield request
    finally:
        if request.received:
            tell.join()
