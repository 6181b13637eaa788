"""The contract of a technique, and what it works with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict
from rich.console import Console

from nas.progress import Bar
from nas.tasks.base import Prepared, Task
from nas.train import Stop, evaluator, pick_device, place
from search_spaces import Architecture, InputError
from supernet import Transformer
from supernet.batch import Batch
from supernet.checkpoint import Checkpoints
from supernet.fit import fit
from supernet.matrices import Change, Reweighted, plain_model
from supernet.pruning import Masks, masked, zeros
from supernet.quantised import Quantised
from supernet.recipe import Recipe
from supernet.sampling import Fixed
from supernet.training import Progress, Trainer

Trains = Literal["never", "on request", "by default", "always"]


class Technique(BaseModel, ABC):
    """One way to make a model smaller; its fields are what it was asked for. A module of this folder holds one."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: ClassVar[str]
    """The option that asks for it."""
    value: ClassVar[str | None] = None
    """The field that the option's value goes to, where it has one."""
    options: ClassVar[tuple[str, ...]] = ()
    """The fields that have options of their own."""
    lr_share: ClassVar[float] = 1 / 40
    """Of the supernet's learning rate that a training has: a model that has lost little takes small steps."""

    @property
    @abstractmethod
    def suffix(self) -> str:
        """What the name of the result ends with."""

    @property
    def trains(self) -> Trains:
        """Whether the model is trained on the way; `steps` of `--set` asks for it, and 0 steps decline it."""
        return "never"

    @property
    def settable(self) -> tuple[str, ...]:
        """The fields that `--set` takes, beside the settings of a training."""
        return ()

    def check(self, model: Transformer, recipe: Recipe) -> None:
        """Raises InputError where it makes no sense for a model or with a recipe."""
        if isinstance(model, Quantised):
            raise InputError("", f"it is {model.how.scheme} already, and no step follows that; take the model it was "
                                 "made of")

    @abstractmethod
    def apply(self, work: Work) -> Transformer | None:
        """The smaller model, on the CPU; None where the user stopped it."""

    def told(self, before: Transformer, after: Transformer) -> dict[str, Any]:
        """What a reader should know of it."""
        return self.model_dump()


@dataclass(frozen=True)
class Early:
    """A step of a training that is kept, for others to start from."""

    kept: Checkpoints
    step: int


@dataclass(frozen=True)
class Work:
    """What a technique works with.

    Args:
        model: the plain model to make smaller; left as it is.
        recipe: of a training on the way, and of what is evaluated.
        tunes: whether there is a training on the way.
        folder: where trainings keep their state.
    """

    model: Transformer
    task: Task
    prepared: Prepared
    recipe: Recipe
    tunes: bool
    folder: Path
    console: Console
    stop: Stop

    @property
    def device(self) -> torch.device:
        """Where models run."""
        return pick_device(self.recipe.device)

    def batches(self, n: int) -> Iterator[Batch]:
        """The first training batches, on the device."""
        for i in range(n):
            yield self.prepared.train.batch(i, self.recipe.batch_size, self.recipe.seed).to(self.device)

    def train(self, model: Transformer, *, masks: Masks | None = None, change: Change | None = None, name: str = "",
              early: Early | None = None) -> Transformer | None:
        """Train a model from where this training stands; None where the user stopped it.

        Args:
            model: what it starts from; left as it is.
            masks: which weights stay; by default all but those that were pruned before.
            change: what else happens to its matrices wherever they are used.
            name: of this training among those of the work.
            early: a step to keep, or, where it has been kept, to start from instead.
        """
        masks = {each: mask.to(self.device) for each, mask in (zeros(model) if masks is None else masks).items()}

        def used(matrix: str, weight: torch.Tensor) -> torch.Tensor:
            kept = masked(weight, masks.get(matrix))
            return kept if change is None else change(matrix, kept)

        started = place(Reweighted(model, used, dropout=self.recipe.dropout), self.recipe)
        trainer = Trainer(started, Fixed(model.arch), self.recipe, self.prepared.train)
        if not self._fit(trainer, model.arch, name, early):
            return None
        with trainer.averaged():
            found = {each: masked(tensor, masks.get(each)) for each, tensor in trainer.model.state_dict().items()}
            return plain_model(model.arch, {each: found[each].to(like) for each, like in model.state_dict().items()})

    def _fit(self, trainer: Trainer, arch: Architecture, name: str, early: Early | None) -> bool:
        checkpoints = Checkpoints(self.folder / name / "checkpoints", self.recipe.keep)
        if not checkpoints.load_newest(trainer) and early is not None and early.kept.load_newest(trainer):
            known = trainer.progress  # whose best evaluation was of a model with other masks
            trainer.progress = Progress(known.step, known.tokens, known.skipped)
        evaluate = evaluator(self.task, self.prepared, {"model": arch})
        bar = Bar(self.console, self.recipe.steps, trainer.progress.step, f"training {name}".rstrip())
        with bar.bar:
            if early is not None and not early.kept.all():
                done = fit(trainer, checkpoints, evaluate, bar,
                           lambda: self.stop() or trainer.progress.step >= early.step)
                if not done and trainer.progress.step < early.step:
                    return False
                early.kept.save(trainer)
            if not fit(trainer, checkpoints, evaluate, bar, self.stop):
                return False
        checkpoints.load_best(trainer)
        return True
