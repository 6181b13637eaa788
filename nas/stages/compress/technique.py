"""The contract of a compression technique, and its context."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from nas.core.evaluation import evaluator, pick_device, place
from nas.core.progress import StageProgress
from nas.core.stopping import Stopped
from nas.tasks.base import Prepared, Task
from search_spaces import Architecture, Fault, InputError
from search_spaces.errors import Option
from supernet import Transformer
from supernet.batch import Batch
from supernet.compression.matrices import Change, Reweighted, plain_model
from supernet.compression.pruning import Masks, masked, zeros
from supernet.compression.quantised import Quantised
from supernet.train.checkpoint import Checkpoints
from supernet.train.fit import fit
from supernet.train.recipe import Recipe
from supernet.train.step import Progress, Trainer
from supernet.train.strategy import Fixed

Trains = Literal["never", "on request", "by default", "always"]


class Technique(BaseModel, ABC):
    """One way to make a model smaller; a module of the folder `techniques` declares one.

    Its fields are its settings, each with a description. From the declaration come the options of `nas compress`, their
    help and the reference.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: ClassVar[str]
    """Name of the technique, and of the option that selects it."""
    help: ClassVar[str]
    """What the option does, in a sentence without a full stop."""
    value: ClassVar[str | None] = None
    """The field that the option's value goes to, where it has one."""
    options: ClassVar[tuple[str, ...]] = ()
    """The fields that have options of their own; the others are set together with training settings."""
    lr_share: ClassVar[float] = 1 / 40
    """Learning rate of a training as a share of the supernet's: small for models that lost little quality."""

    @property
    @abstractmethod
    def suffix(self) -> str:
        """Suffix of the result's name."""

    @property
    def trains(self) -> Trains:
        """Whether the model is trained; the setting `steps` requests it, and 0 steps skip it."""
        return "never"

    @property
    def settable(self) -> tuple[str, ...]:
        """Those of its `settings` that have an effect with its options."""
        return self.settings()

    def check(self, model: Transformer, recipe: Recipe) -> None:
        """Raises InputError if it is not applicable to a model or recipe."""
        if isinstance(model, Quantised):
            raise InputError("", f"it is already {model.how.scheme}, which must be the last step; use the model it "
                                 "was made from")

    @abstractmethod
    def apply(self, context: CompressionContext) -> Transformer:
        """The smaller model, on the CPU. Raises Stopped if the user stopped training."""

    def summary(self, before: Transformer, after: Transformer) -> dict[str, Any]:
        """A summary of the result, for its facts."""
        return self.model_dump()

    @classmethod
    def settings(cls) -> tuple[str, ...]:
        """The fields that are neither the option's value nor options."""
        return tuple(name for name in cls.model_fields if name != cls.value and name not in cls.options)

    def with_settings(self, settings: Mapping[str, Any]) -> tuple[Technique, dict[str, Any]]:
        """The technique with its own settings, and those that are left for a training. Raises InputError."""
        own = {key: value for key, value in settings.items() if key in self.settable}
        try:
            changed = type(self).model_validate({**self.model_dump(), **own})
        except ValidationError as error:
            raise InputError(Option("set"), [Fault(str(fault["loc"][0]), f"{fault['input']!r} is not allowed: "
                                                                        f"{fault['msg']}")
                                             for fault in error.errors()]) from None
        return changed, {key: value for key, value in settings.items() if key not in own}


@dataclass(frozen=True)
class Early:
    """A saved training step that other training runs start from."""

    kept: Checkpoints
    step: int


@dataclass(frozen=True)
class CompressionContext:
    """The context of a technique.

    Args:
        model: the plain model to make smaller; left as it is.
        recipe: of the technique's training, if any, and of evaluations.
        trains: whether the model is trained.
        folder: where training keeps its state.
    """

    model: Transformer
    task: Task
    prepared: Prepared
    recipe: Recipe
    trains: bool
    folder: Path
    progress: StageProgress

    @property
    def device(self) -> torch.device:
        """Where models run."""
        return pick_device(self.recipe.device)

    def batches(self, n: int) -> Iterator[Batch]:
        """The first training batches, on the device."""
        for i in range(n):
            yield self.prepared.train.batch(i, self.recipe.batch_size, self.recipe.seed).to(self.device)

    def train(self, model: Transformer, *, masks: Masks | None = None, change: Change | None = None, name: str = "",
              early: Early | None = None) -> Transformer:
        """Train a model from its newest checkpoint on, if there is one. Raises Stopped.

        Args:
            model: what it starts from; left as it is.
            masks: which weights are kept; by default all that are not pruned yet.
            change: a function applied to its matrices in every use.
            name: of this training among those of the technique.
            early: a step to keep, or, where it has been kept, to start from instead.
        """
        masks = {path: mask.to(self.device) for path, mask in (zeros(model) if masks is None else masks).items()}

        def used(matrix: str, weight: torch.Tensor) -> torch.Tensor:
            kept = masked(weight, masks.get(matrix))
            return kept if change is None else change(matrix, kept)

        started = place(Reweighted(model, used, dropout=self.recipe.dropout), self.recipe)
        trainer = Trainer(started, Fixed(model.arch), self.recipe, self.prepared.train)
        self._fit(trainer, model.arch, name, early)
        with trainer.averaged():
            tensors = {path: masked(tensor, masks.get(path)) for path, tensor in trainer.model.state_dict().items()}
            return plain_model(model.arch, {path: tensors[path].to(like) for path, like in model.state_dict().items()})

    def _fit(self, trainer: Trainer, arch: Architecture, name: str, early: Early | None) -> None:
        checkpoints = Checkpoints(self.folder / name / "checkpoints", self.recipe.keep)
        if not checkpoints.load_newest(trainer) and early is not None and early.kept.load_newest(trainer):
            known = trainer.progress  # whose best evaluation was of a model with other masks
            trainer.progress = Progress(known.step, known.tokens, known.skipped)
        evaluate = evaluator(self.task, self.prepared, {"model": arch})
        observer = self.progress.training(f"training {name}".rstrip(), self.recipe.steps, trainer.progress.step)
        if early is not None and not early.kept.all():
            done = fit(trainer, checkpoints, evaluate, observer,
                       lambda: self.progress.stop() or trainer.progress.step >= early.step)
            if not done and trainer.progress.step < early.step:
                raise Stopped
            early.kept.save(trainer)
        if not fit(trainer, checkpoints, evaluate, observer, self.progress.stop):
            raise Stopped
        checkpoints.load_best(trainer)
