"""Train until the end: steps, evaluations, checkpoints, early stop and a clean stop on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import torch

from search_spaces.errors import InputError
from supernet.checkpoint import Checkpoints
from supernet.training import StepReport, Trainer


class Observer(Protocol):
    """Is told what happens, and changes nothing."""

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


Evaluate = Callable[[Trainer], Mapping[str, float]]


def fit(trainer: Trainer, checkpoints: Checkpoints, evaluate: Evaluate, observer: Observer | None = None,
        stop: Callable[[], bool] = lambda: False) -> bool:
    """Train from where the trainer stands; false where it was asked to stop before the end.

    A step's evaluation comes before its checkpoint, so that a resumed run knows it.

    Args:
        evaluate: metrics of the trainer's averaged model; `loss` decides on stopping early. Asked of the first
            worker only.
        stop: asked between steps; a checkpoint is written before leaving.
    """
    observer = observer or Silent()
    leads = trainer.workers.rank == 0
    while not trainer.finished:
        if trainer.workers.agree(stop()):
            _save(trainer, checkpoints, observer)
            return False
        report = _guarded(trainer)
        if leads:
            observer.on_step(report)
        _evaluate_if_due(trainer, evaluate, observer)
        if trainer.finished or trainer.progress.step % trainer.recipe.checkpoint_every == 0:
            _save(trainer, checkpoints, observer)
    return True


def _evaluate_if_due(trainer: Trainer, evaluate: Evaluate, observer: Observer) -> None:
    every, step = trainer.recipe.evaluate_every, trainer.progress.step
    if not (step >= trainer.recipe.steps or (every and step % every == 0)):
        return
    loss = 0.0
    if trainer.workers.rank == 0:
        with torch.no_grad():
            metrics = evaluate(trainer)
        loss = metrics["loss"]
        observer.on_evaluation(step, metrics)
    trainer.note_evaluation(trainer.workers.told(loss))


def _save(trainer: Trainer, checkpoints: Checkpoints, observer: Observer) -> None:
    if trainer.workers.rank == 0:
        observer.on_checkpoint(checkpoints.save(trainer))


def _guarded(trainer: Trainer) -> StepReport:
    """One step, with a sentence where memory runs out."""
    try:
        return trainer.step()
    except (MemoryError, RuntimeError) as error:
        if not (isinstance(error, (MemoryError, torch.OutOfMemoryError)) or _ran_out(str(error))):
            raise
        size, more = trainer.recipe.batch_size, 2 * trainer.recipe.accumulate
        raise InputError(f"step {trainer.progress.step}", f"out of memory; lower batch_size (it is {size}; with "
                         f"accumulate={more} a step sees as much as before) or set checkpointing=true") from None


def _ran_out(says: str) -> bool:
    """Whether an error of no type of its own is for want of memory: those of CPUs and some accelerators."""
    return "out of memory" in says or "allocate memory" in says
