"""One step of training, the same for supernets and plain models; the loop is `fit`.

Everything random in a step (data, architectures, dropped layers, dropout) is a function of the seed and
the step, so that the state of a training is its tensors and a few numbers: see `Trainer.tensors` and `Progress`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from search_spaces import registry as kinds
from search_spaces.architecture import Architecture
from search_spaces.errors import InputError
from search_spaces.units import plan
from supernet.batch import Batch, Split
from supernet.inference import predict
from supernet.room import check_room, tensor_bytes
from supernet.supernet import Supernet
from supernet.train.losses import label_loss, labelled, soft_loss, soft_targets
from supernet.train.optimiser import Optimisers, matrices_of
from supernet.train.parallel import Workers
from supernet.train.recipe import Recipe
from supernet.train.strategy import Strategy, drop_layers, generator
from supernet.train.training_loss import TrainingLoss
from supernet.transformer import Transformer

IN_CHECKPOINTS = "lesson"
"""The name of a training loss in checkpoints."""


class DivergedError(InputError):
    """Too many consecutive steps had non-finite gradients."""


@dataclass
class Progress:
    """Progress of a training; together with the tensors, the content of a checkpoint."""

    step: int = 0
    tokens: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    best_loss: float | None = None
    best_step: int = 0
    evaluations_since_best: int = 0
    stopped_early: bool = False


@dataclass(frozen=True)
class StepReport:
    """Result of one step.

    Args:
        losses: of each part of a training loss; without one, of each architecture: of the first against the labels, of
            the others, or of all if there is a teacher, against soft targets. Mean over labels.
        names: names of the first of them.
        tokens: read by all workers, each counted once however many architectures saw it.
    """

    step: int
    losses: tuple[float, ...]
    names: tuple[str, ...]
    grad_norm: float
    learning_rate: float
    tokens: int
    skipped: bool


class SoftTeacher(Protocol):
    """A frozen model that teaches every architecture of a supernet."""

    def tell(self, batch: Batch, recipe: Recipe, outputs: Sequence[str]) -> dict[str, Any]:
        """Its outputs for a batch, by the names of `Transformer.forward`."""

    def cosine_feature_loss(self, arch: Architecture, mine: Sequence[Tensor], theirs: Sequence[Tensor],
                            batch: Batch) -> Tensor:
        """How far the hidden states of an architecture are from its own."""


@dataclass
class Trainer:
    """Trains a supernet, or a plain model, step by step.

    Args:
        model: on its device, in the type its weights keep.
        strategy: the architectures of each step; of a plain model its own.
        training_loss: of a plain model, if not only the labels count.
        teacher: teaches all architectures of a supernet; without it, the first of a step teaches the others.
        before_step: called at the beginning of every step.
    """

    model: Supernet | Transformer
    strategy: Strategy
    recipe: Recipe
    data: Split
    workers: Workers = field(default_factory=Workers)
    progress: Progress = field(default_factory=Progress)
    training_loss: TrainingLoss | None = None
    teacher: SoftTeacher | None = None
    before_step: Callable[[Trainer], None] | None = None

    def __post_init__(self) -> None:
        self.named = dict(self.model.named_parameters())
        self.device = next(iter(self.named.values())).device
        if self.training_loss is not None:
            self.named |= {f"{IN_CHECKPOINTS}.{name}": parameter
                           for name, parameter in self.training_loss.named_parameters()}
        self.model.checkpointing = self.recipe.checkpointing
        copies, more = (4, ", and averaged weights,") if self.recipe.ema else (3, "")
        check_room("training", copies * tensor_bytes(self.named.values()), f"gradients and moments{more}",
                   self.device, "use a smaller width, vocab_size or context")
        muon = self.recipe.optimiser == "muon"
        self.optimiser = Optimisers(self.named, self.recipe, matrices_of(self.model) if muon else {})
        self.averages = {name: p.detach().clone() for name, p in self.named.items()} if self.recipe.ema else {}
        self.sums: dict[str, Tensor] = {}
        self.reached: set[Tensor] = set()
        for parameter in self.named.values():
            parameter.register_post_accumulate_grad_hook(self.reached.add)  # type: ignore[no-untyped-call]

    def step(self) -> StepReport:
        """Take one optimiser step. Raises DivergedError after too many without a finite gradient."""
        if self.before_step is not None:
            self.before_step(self)
        recipe, step = self.recipe, self.progress.step
        batches = [self.data.batch(step * recipe.accumulate + i, recipe.batch_size, recipe.seed)
                   for i in range(recipe.accumulate)]
        n_labels = max(sum(batch.n_labels for batch in batches), 1)
        rng = generator(recipe.seed, "layerdrop", step)
        archs = tuple(drop_layers(arch, recipe.layerdrop, rng) for arch in self.strategy.draw(step))
        torch.manual_seed(generator(recipe.seed, "dropout", step, self.workers.rank).getrandbits(63))
        self.model.train()
        self.clear_gradients(len(archs) * len(batches))
        names = self.strategy.names if self.training_loss is None else self.training_loss.parts
        losses = torch.zeros(len(archs) if self.training_loss is None else len(names), dtype=torch.float64)
        for batch in batches:
            mine = batch.part(self.workers.rank, self.workers.world)
            losses += self.add_gradients(archs, mine.to(self.device), n_labels)
        for parameter in self.named.values():
            if parameter not in self.reached:
                parameter.grad = None  # so that AdamW skips it
        norm, losses = self._reduced(losses)
        report = StepReport(step, tuple(losses.tolist()), names, norm, recipe.learning_rate(step),
                            tokens=sum(batch.n_tokens for batch in batches), skipped=not math.isfinite(norm))
        self._update(report)
        return report

    def clear_gradients(self, passes: int) -> None:
        """Forget all gradients.

        The gradient buffers are kept: allocated in every step, they would fragment memory among activations of varying
        sizes.
        """
        self.reached.clear()
        if passes > 1 and not self.sums:
            self.sums = {name: torch.empty_like(parameter) for name, parameter in self.named.items()}
        for name, parameter in self.named.items():
            parameter.grad = self.sums[name].zero_() if passes > 1 else None

    def add_gradients(self, archs: tuple[Architecture, ...], batch: Batch, n_labels: int) -> Tensor:
        """Add the gradients of all architectures on one batch; returns their losses."""
        if self.training_loss is not None:
            return self._learn(self.training_loss, archs[0], batch, n_labels)
        losses, from_teacher = [], self._teacher_outputs(batch)
        targets = self._targets(from_teacher["logits"], batch) if from_teacher else None
        for arch in archs:
            predicted = self._predicted(arch, batch, "features" in from_teacher)
            logits, labels = labelled(predicted["logits"], batch.labels)
            if targets is None:
                loss = label_loss(logits, labels, self.recipe.label_smoothing)
            else:
                loss = soft_loss(logits, targets)
            total = loss + len(labels) * self._added(arch, predicted, from_teacher, batch)
            (total / (n_labels * len(archs))).backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach().cpu().double() / n_labels)
            if targets is None and len(archs) > 1:
                targets = soft_targets(logits, labels, self.recipe.distill, self.recipe.label_smoothing)
            del predicted, logits, loss, total  # before the next forward pass needs the memory
        return torch.stack(losses)

    def _teacher_outputs(self, batch: Batch) -> dict[str, Any]:
        """The outputs of a frozen teacher for a batch; empty without one."""
        if self.teacher is None:
            return {}
        wanted = ("logits", "features") if self.recipe.distill_features else ("logits",)
        return self.teacher.tell(batch, self.recipe, wanted)

    def _targets(self, predicted: Tensor, batch: Batch) -> Tensor:
        """The targets that a teacher's logits set for a batch."""
        logits, labels = labelled(predicted, batch.labels)
        return soft_targets(logits, labels, self.recipe.distill, self.recipe.label_smoothing)

    def _added(self, arch: Architecture, predicted: Mapping[str, Any], from_teacher: Mapping[str, Any],
               batch: Batch) -> Tensor | float:
        """What blocks of an architecture, and a teacher's hidden states, add to its mean loss."""
        added: Tensor | float = predicted.get("aux_loss", 0.0)
        if "features" in from_teacher and self.teacher is not None:
            loss = self.teacher.cosine_feature_loss(arch, predicted["features"], from_teacher["features"], batch)
            added = added + self.recipe.distill_features * loss
        return added

    def _learn(self, training_loss: TrainingLoss, arch: Architecture, batch: Batch, n_labels: int) -> Tensor:
        """Add the gradients of a training loss on one batch; returns the losses of its parts."""
        losses = torch.stack(training_loss.losses(self, arch, batch))
        weights = losses.new_tensor(training_loss.weights(self.progress.step / self.recipe.steps))
        (losses @ weights / n_labels).backward()  # type: ignore[no-untyped-call]
        return losses.detach().cpu().double() / n_labels

    def logits(self, arch: Architecture, batch: Batch) -> Tensor:
        """The logits of an architecture on a batch, in the recipe's precision."""
        out: Tensor = predict(self.model, arch, batch, self.recipe)
        return out

    def _predicted(self, arch: Architecture, batch: Batch, features: bool) -> dict[str, Any]:
        """The logits of an architecture on a batch, its hidden states if wanted, and the loss of its blocks if any."""
        more = (*(("features",) if features else ()), *(("aux_loss",) if adds_loss(arch) else ()))
        if not more:
            return {"logits": self.logits(arch, batch)}
        outputs: dict[str, Any] = predict(self.model, arch, batch, self.recipe, ("logits", *more))
        return outputs

    def _reduced(self, losses: Tensor) -> tuple[float, Tensor]:
        """Sum gradients and losses over the workers and clip; returns the norm before clipping."""
        losses = self.workers.reduce(self.named.values(), losses)
        gradients = [p.grad for p in self.named.values() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if self.recipe.clip:
            torch.nn.utils.clip_grads_with_norm_(self.named.values(), self.recipe.clip, norm)
        return float(norm), losses

    def _update(self, report: StepReport) -> None:
        """Update the weights, unless the gradient is not finite."""
        progress, recipe = self.progress, self.recipe
        if report.skipped:
            progress.skipped += 1
            progress.skipped_in_a_row += 1
            if progress.skipped_in_a_row >= recipe.bad_steps:
                raise DivergedError(f"step {report.step}", (
                    f"the gradient was not finite in {recipe.bad_steps} consecutive steps; the last checkpoint is "
                    "intact; "
                    f"train again with an lr below {recipe.lr:g}"))
        else:
            progress.skipped_in_a_row = 0
            for group in self.optimiser.param_groups:
                group["lr"] = report.learning_rate
            self.optimiser.step()
            self._average()
        progress.step += 1
        progress.tokens += report.tokens

    def _average(self) -> None:
        """Update the averaged weights; the decay is lower at the start, so that initial weights are forgotten."""
        if self.averages:
            decay = min(self.recipe.ema, (1 + self.progress.step) / (10 + self.progress.step))
            update = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
            update(list(self.averages.values()), list(self.named.values()), self.progress.step)

    @contextmanager
    def averaged(self) -> Iterator[nn.Module]:
        """The model with its averaged weights, if any, in eval mode."""
        kept = {name: self.named[name].data for name in self.averages}
        try:
            for name, average in self.averages.items():
                self.named[name].data = average
            yield self.model.eval()
        finally:
            for name, tensor in kept.items():
                self.named[name].data = tensor

    def note_evaluation(self, loss: float) -> None:
        """Record the best loss and decide on early stopping; losses that are not finite are ignored."""
        progress = self.progress
        if math.isfinite(loss) and (progress.best_loss is None or loss < progress.best_loss):
            progress.best_loss, progress.best_step, progress.evaluations_since_best = loss, progress.step, 0
        else:
            progress.evaluations_since_best += 1
            progress.stopped_early = 0 < self.recipe.patience <= progress.evaluations_since_best

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or training stopped early."""
        return self.progress.step >= self.recipe.steps or self.progress.stopped_early

    def tensors(self) -> dict[str, Tensor]:
        """Everything a checkpoint has to hold: weights, buffers, averages and the optimiser's state."""
        tensors = {f"model/{name}": tensor for name, tensor in self.model.state_dict().items()}
        if self.training_loss is not None:
            tensors |= {f"{IN_CHECKPOINTS}/{name}": tensor for name, tensor in self.training_loss.state_dict().items()}
        tensors |= {f"ema/{name}": tensor for name, tensor in self.averages.items()}
        # "adam" is the state of any optimiser: the name is that of earlier checkpoints
        return tensors | {f"adam/{name}": tensor for name, tensor in self.optimiser.tensors().items()}

    def load(self, tensors: Mapping[str, Tensor], progress: Progress) -> None:
        """Resume from `tensors` and `progress`. Raises KeyError or RuntimeError where they do not fit."""
        parts: dict[str, dict[str, Tensor]] = {"model": {}, IN_CHECKPOINTS: {}, "ema": {}, "adam": {}}
        for full, tensor in tensors.items():
            part, _, name = full.partition("/")
            parts[part][name] = tensor
        self.model.load_state_dict(parts["model"])
        if self.training_loss is not None:
            self.training_loss.load_state_dict(parts[IN_CHECKPOINTS])
        for name, average in self.averages.items():
            average.copy_(parts["ema"][name])
        self.optimiser.load(parts["adam"])
        self.progress = progress


@lru_cache(maxsize=4096)
def adds_loss(arch: Architecture) -> bool:
    """Whether a block of an architecture has a loss of its own."""
    return any(kinds.get(step.unit.block.kind).adds_loss for step in plan(arch) if step.role != "norm")
