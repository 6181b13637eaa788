"""The curves of a training: `metrics.csv` and TensorBoard events in the run's folder."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nas.core.event_file import EventFile
from nas.core.run_dir import write_text
from search_spaces import InputError
from search_spaces.errors import shown
from search_spaces.files.reading import number, read_text

if TYPE_CHECKING:  # they import torch
    from supernet.train.fit import Observer
    from supernet.train.recipe import Recipe
    from supernet.train.step import Progress, StepReport

HEADER = "step,metric,value\n"
LOSS = "train/loss_"
"""Prefix of the names of training losses; the architecture follows."""


class Files:
    """Writes `metrics.csv` (step, metric, value) and TensorBoard events.

    Rows after the step that a run is resumed from are removed, because those steps are repeated. Use it in a `with`
    block: at its end, everything is on disk.
    """

    def __init__(self, folder: Path, start: int, log_every: int) -> None:
        self.path, self.log_every = folder / "metrics.csv", log_every
        kept = [row.text for row in read_rows(self.path, damaged=False) if row.step <= start]
        write_text(self.path, HEADER + "".join(kept))
        self.events = EventFile(folder / "tensorboard", start)
        self.clock, self.tokens = Clock(), 0

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: object) -> None:
        self.events.close()

    def on_step(self, report: StepReport) -> None:
        """A row per metric, every `log_every` steps."""
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
        """Flush rows to disk."""
        self.events.flush()
        self.clock.did_something_else()

    def _write(self, step: int, metrics: Mapping[str, float]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{step},{name},{value!r}\n" for name, value in metrics.items()))
        self.events.add(step, {name: value for name, value in metrics.items() if math.isfinite(value)})


class Clock:
    """Measures the time of steps, without evaluations and checkpoints."""

    def __init__(self) -> None:
        self.seconds, self.since = 0.0, time.perf_counter()

    def took_a_step(self) -> None:
        """Count the time since the last call as a step."""
        now = time.perf_counter()
        self.seconds, self.since = self.seconds + now - self.since, now

    def did_something_else(self) -> None:
        """Do not count the time since the last call."""
        self.since = time.perf_counter()

    def taken(self) -> float:
        """The seconds of the steps since the last call."""
        seconds, self.seconds = self.seconds, 0.0
        return max(seconds, 1e-9)


def step_metrics(report: StepReport) -> dict[str, float]:
    """The metrics logged for a step."""
    losses = {f"{LOSS}{name}": loss for name, loss in zip(report.names, report.losses)}
    return {**losses, "train/grad_norm": report.grad_norm, "train/lr": report.learning_rate,
            "train/skipped": float(report.skipped)}


class MetricRow(NamedTuple):
    """A row of `metrics.csv`, and its line in the file."""

    step: int
    metric: str
    value: float
    text: str


def read_rows(path: Path, damaged: bool = True) -> Iterator[MetricRow]:
    """The rows of a metrics file; an incomplete last row is ignored.

    Args:
        damaged: whether a damaged row is an error; otherwise it is ignored, because a training does not need it.

    Raises:
        InputError: the file, or a row of it, is damaged.
    """
    if not path.is_file():
        return
    remedy = "restore it, or delete it: only the curves so far are lost"
    header, *lines = read_text(path, remedy).split("\n")
    if header and header + "\n" != HEADER:
        raise InputError(str(path), f"is damaged: line 1 must be {HEADER.strip()}, found {shown(header)}", remedy)
    for i, line in enumerate(lines[:-1], 2):  # an incomplete last line
        step, _, rest = line.partition(",")
        metric, _, value = rest.rpartition(",")
        try:
            if not metric or not (step.isascii() and step.isdecimal() and len(step) < 16):
                raise InputError(f"{path}, line {i}", f"{shown(line)} is not a step, a metric and a value", remedy)
            yield MetricRow(int(step), metric, number(value, f"{path}, line {i}", remedy), f"{line}\n")
        except InputError:
            if damaged:
                raise


def outcome_notes(state: Progress, recipe: Recipe, folder: Path) -> Iterator[str]:
    """Notes about a finished training, and the location of its curves."""
    if state.stopped_early:
        yield f"stopped early: no better loss since step {state.best_step:,}"
    if recipe.patience and state.best_loss is not None:
        yield f"the weights are those of step {state.best_step:,}, which had the best evaluation"
    if state.skipped:
        yield f"{state.skipped:,} steps had non-finite gradients and were skipped"
    yield f"curves: {folder}/metrics.csv, or tensorboard --logdir {folder}/tensorboard"


class Several:
    """Forwards to several observers."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self.observers = tuple(observers)

    def on_step(self, report: StepReport) -> None:
        """Forward."""
        for observer in self.observers:
            observer.on_step(report)

    def on_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """Forward."""
        for observer in self.observers:
            observer.on_evaluation(step, metrics)

    def on_checkpoint(self, path: Path) -> None:
        """Forward."""
        for observer in self.observers:
            observer.on_checkpoint(path)
