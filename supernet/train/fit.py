"""The training loop: steps, evaluations, checkpoints, early stopping, and a clean stop on request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import torch

from search_spaces.errors import InputError
from supernet.room import GIB, free_bytes
from supernet.train.checkpoint import Checkpoints
from supernet.train.recipe import Recipe
from supernet.train.step import StepReport, Trainer


class Observer(Protocol):
    """Observes a training and changes nothing."""

    def on_step(self, report: StepReport) -> None:
        """A step was taken."""

    def on_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """The model was evaluated after `step` steps."""

    def on_checkpoint(self, path: Path) -> None:
        """A checkpoint was written."""


class Silent:
    """Observes nothing."""

    def on_step(self, report: StepReport) -> None:
        """Do nothing."""

    def on_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """Do nothing."""

    def on_checkpoint(self, path: Path) -> None:
        """Do nothing."""


EvaluateTrainer = Callable[[Trainer], Mapping[str, float]]


def fit(trainer: Trainer, checkpoints: Checkpoints, evaluate: EvaluateTrainer, observer: Observer | None = None,
        stop: Callable[[], bool] = lambda: False) -> bool:
    """Train from the trainer's current step; false if stopped before the end.

    A step's evaluation comes before its checkpoint, so that a resumed run includes it. With patience, the step of the
    best evaluation has a checkpoint: see `Checkpoints.load_best`.

    Args:
        evaluate: metrics of the trainer's averaged model; `loss` decides on early stopping. Called by the first worker
            only.
        stop: checked between steps; a checkpoint is written before returning.
    """
    observer = observer or Silent()
    leads = trainer.workers.rank == 0
    while not trainer.finished:
        if trainer.workers.agree(stop()):
            _save(trainer, checkpoints, observer)
            return False
        with enough_memory(f"step {trainer.progress.step}", less_memory(trainer.recipe)):
            report = trainer.step()
        if leads:
            observer.on_step(report)
        _evaluate_if_due(trainer, evaluate, observer)
        if trainer.finished or trainer.progress.step % trainer.recipe.checkpoint_every == 0 or _is_best(trainer):
            _save(trainer, checkpoints, observer)
    return True


def _evaluate_if_due(trainer: Trainer, evaluate: EvaluateTrainer, observer: Observer) -> None:
    every, step = trainer.recipe.evaluate_every, trainer.progress.step
    if not (step >= trainer.recipe.steps or (every and step % every == 0)):
        return
    loss = 0.0
    if trainer.workers.rank == 0:
        with torch.no_grad(), enough_memory(f"evaluation after step {step}", less_memory(trainer.recipe)):
            metrics = evaluate(trainer)
        loss = metrics["loss"]
        observer.on_evaluation(step, metrics)
    trainer.note_evaluation(trainer.workers.broadcast(loss))


def _save(trainer: Trainer, checkpoints: Checkpoints, observer: Observer) -> None:
    if trainer.workers.rank == 0:
        observer.on_checkpoint(checkpoints.save(trainer))


def _is_best(trainer: Trainer) -> bool:
    """Whether the last step has the best evaluation, which must be kept with patience."""
    progress = trainer.progress
    return trainer.recipe.patience > 0 and progress.best_loss is not None and progress.best_step == progress.step


def less_memory(recipe: Recipe) -> str:
    """Advice for a training with less memory."""
    size, more = recipe.batch_size, 2 * recipe.accumulate
    return (f"lower batch_size (it is {size}; with accumulate={more} a step uses as many sequences as before) or set "
            "checkpointing=true")


@contextmanager
def enough_memory(where: str, remedy: str) -> Iterator[None]:
    """Raises InputError with advice if memory runs out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not (isinstance(error, (MemoryError, torch.OutOfMemoryError)) or _ran_out(str(error))):
            raise
        raise InputError(where, f"out of memory{_figures(str(error))}", remedy) from None


def _figures(text: str) -> str:
    """Requested and free bytes, if the CPU allocator reports them."""
    requested, free = re.search(r"tried to allocate (\d+) bytes", text), free_bytes(torch.device("cpu"))
    if requested is None or free is None:
        return ""
    return f": {int(requested[1]) / GIB:,.1f} GiB requested, {free / GIB:,.1f} GiB are free"


def _ran_out(text: str) -> bool:
    """Whether a generic error means out of memory, as on CPUs and some accelerators."""
    return "out of memory" in text or "allocate memory" in text
