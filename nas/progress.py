"""What a training shows: a progress bar on the terminal, `metrics.csv` and TensorBoard events in the run's folder."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console

from nas.bar import WorkBar
from nas.run_dir import write_text
from supernet.fit import Observer
from supernet.training import StepReport

HEADER = "step,metric,value\n"
LOSS = "train/loss_"
"""What the names of training losses begin with; they end with what the architecture is."""


class Files:
    """Writes `metrics.csv` (step, metric, value) and TensorBoard events.

    Rows behind the step a run is resumed from are taken out: those steps happen again.
    """

    def __init__(self, folder: Path, start: int, log_every: int) -> None:
        from tensorboardX import SummaryWriter

        self.path, self.log_every = folder / "metrics.csv", log_every
        kept = [line for line in read_rows(self.path) if int(line.split(",", 1)[0]) <= start]
        write_text(self.path, HEADER + "".join(kept))
        self.writer = SummaryWriter(str(folder / "tensorboard"), purge_step=start + 1)
        self.clock, self.tokens = Clock(), 0

    def on_step(self, report: StepReport) -> None:
        """A row per metric, every so many steps."""
        self.clock.took_a_step()
        self.tokens += report.tokens
        if (report.step + 1) % self.log_every == 0:
            rate, self.tokens = self.tokens / self.clock.taken(), 0
            self._write(report.step + 1, {**step_metrics(report), "train/tokens_per_s": rate})
        elif report.skipped:
            self._write(report.step + 1, {"train/skipped": 1.0})

    def on_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """A row per metric."""
        self._write(step, {f"valid/{name}": value for name, value in metrics.items()})
        self.clock.did_something_else()

    def on_checkpoint(self, path: Path) -> None:
        """Bring to disk what was measured so far."""
        self.writer.flush()
        self.clock.did_something_else()

    def _write(self, step: int, metrics: Mapping[str, float]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{step},{name},{value!r}\n" for name, value in metrics.items()))
        for name, value in metrics.items():
            if math.isfinite(value):  # TensorBoard draws no others, and its writer would complain of each
                self.writer.add_scalar(name, value, step)


class Clock:
    """The seconds that steps take; those of evaluations and checkpoints are no training time."""

    def __init__(self) -> None:
        self.seconds, self.since = 0.0, time.perf_counter()

    def took_a_step(self) -> None:
        """What went by since the last call was a step."""
        now = time.perf_counter()
        self.seconds, self.since = self.seconds + now - self.since, now

    def did_something_else(self) -> None:
        """What went by since the last call was none."""
        self.since = time.perf_counter()

    def taken(self) -> float:
        """The seconds of the steps since this was last asked."""
        found, self.seconds = self.seconds, 0.0
        return max(found, 1e-9)


def step_metrics(report: StepReport) -> dict[str, float]:
    """What a step is logged as."""
    losses = {f"{LOSS}{name}": loss for name, loss in zip(report.names, report.losses)}
    return {**losses, "train/grad_norm": report.grad_norm, "train/lr": report.learning_rate,
            "train/skipped": float(report.skipped)}


def read_rows(path: Path) -> Iterator[str]:
    """The whole rows of a metrics file; a row cut off by a kill is left out."""
    if path.is_file():
        for line in path.read_text("utf-8").splitlines(keepends=True)[1:]:
            if line.endswith("\n") and line.count(",") == 2 and line.split(",")[0].isdecimal():
                yield line


class Bar:
    """A progress bar with the losses, tokens per second and the time left."""

    def __init__(self, console: Console, steps: int, start: int, what: str = "training") -> None:
        self.bar = WorkBar(console)
        self.task = self.bar.add(what, steps, start)
        self.clock, self.rate, self.valid = Clock(), 0.0, ""

    def on_step(self, report: StepReport) -> None:
        """Move on."""
        self.clock.took_a_step()
        rate = report.tokens / self.clock.taken()
        self.rate = rate if self.rate == 0 else 0.9 * self.rate + 0.1 * rate
        self._show(report.step + 1, dict(zip(report.names, report.losses)))

    def show_rows(self, rows: Iterable[str]) -> None:
        """Show what another process wrote to `metrics.csv`."""
        values: dict[str, float] = {}
        step = 0
        for row in rows:
            number, name, value = row.split(",")
            step, values[name] = max(step, int(number)), float(value)
        if values:
            self.rate = values.get("train/tokens_per_s", 0.0)
            self.valid = f", valid {values['valid/loss']:.3f}" if "valid/loss" in values else ""
            losses = {name: value for name, value in values.items() if name.startswith(LOSS)}
            self._show(step, {name.removeprefix(LOSS): value for name, value in losses.items()})

    def _show(self, step: int, losses: Mapping[str, float]) -> None:
        shown = " / ".join(f"{loss:.3f} ({name})" for name, loss in losses.items())
        self.bar.say(self.task, f"loss {shown}{self.valid}, {self.rate:,.0f} tokens/s")
        self.bar.move_to(self.task, step)

    def on_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show the validation loss from now on."""
        self.valid = f", valid {metrics['loss']:.3f}"
        self.clock.did_something_else()

    def on_checkpoint(self, path: Path) -> None:
        """The time a checkpoint takes is no training time."""
        self.clock.did_something_else()


class Several:
    """Tells several observers."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self.observers = tuple(observers)

    def on_step(self, report: StepReport) -> None:
        """Pass on."""
        for observer in self.observers:
            observer.on_step(report)

    def on_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """Pass on."""
        for observer in self.observers:
            observer.on_evaluation(step, metrics)

    def on_checkpoint(self, path: Path) -> None:
        """Pass on."""
        for observer in self.observers:
            observer.on_checkpoint(path)


@contextmanager
def interruptible(console: Console | None = None) -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM ask for a stop instead of breaking off, and are told of; a second one breaks off."""
    asked = False
    console = console or Console(stderr=True)
    tell = threading.Thread(target=console.print, args=("stopping at the next chance; once more breaks off",))

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        tell.start()  # the main thread may be in the middle of printing

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if asked:
            tell.join()
