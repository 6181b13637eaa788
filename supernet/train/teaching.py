"""Distillation of plain models: a teacher's logits, features and attention maps."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.architecture import Architecture
from search_spaces.errors import InputError, Option
from search_spaces.units import LENGTHS, plan
from supernet.batch import Batch
from supernet.inference import predict
from supernet.train.losses import attention_loss, label_loss, labelled, precise, relative_feature_error, teacher_loss
from supernet.train.recipe import Recipe
from supernet.train.step import Trainer, adds_loss
from supernet.train.theseus import Theseus, layer_ends
from supernet.train.training_loss import TrainingLoss
from supernet.transformer import Transformer

LOSSES = ("logits", "features", "attention")
"""The distillation losses."""
FIT_BATCHES = 8
"""Batches for initialising projections."""


@dataclass(frozen=True)
class Pair:
    """Indices of a student layer and its teacher layer, each counted over all stacks of its model."""

    stack: str
    student: int
    teacher: int


def layer_pairs(student: Architecture, teacher: Architecture) -> tuple[Pair, ...]:
    """The teacher layer of each student layer: see `layer_ends`. Stacks are mapped separately."""
    pairs: list[Pair] = []
    before = 0
    for stack, layers in student.stacks.items():
        theirs, first = teacher.stacks[stack], len(pairs)
        ends = layer_ends(len(layers), len(theirs))
        pairs += [Pair(stack, first + i, before + end) for i, end in enumerate(ends)]
        before += len(theirs)
    return tuple(pairs)


@dataclass(frozen=True)
class Teacher:
    """A frozen model.

    Args:
        known: where the logits of classifiers are kept, by the digest of a batch, so that they are computed once for
            several students that read the same batches; None keeps nothing.
    """

    model: Transformer
    known: dict[bytes, Tensor] | None = None

    def __post_init__(self) -> None:
        self.model.eval().requires_grad_(False)

    @torch.no_grad()
    def tell(self, batch: Batch, recipe: Recipe, outputs: Sequence[str]) -> dict[str, Any]:
        """Its outputs for a batch."""
        if self.known is None or tuple(outputs) != ("logits",) or batch.labels.ndim > 1:
            out: dict[str, Any] = predict(self.model, self.model.arch, batch, recipe, outputs)
            return out
        key = _digest(batch)
        if key not in self.known:
            self.known[key] = predict(self.model, self.model.arch, batch, recipe)
        return {"logits": self.known[key]}

    def cosine_feature_loss(self, arch: Architecture, mine: Sequence[Tensor], theirs: Sequence[Tensor],
                            batch: Batch) -> Tensor:
        """The mean 1 - cos of hidden states after matching layers, over real tokens.

        Slices of a store are prefixes, so the channels of a narrower model are the first ones of this model. Norms
        scale fewer channels differently, hence the cosine. Layers that see another number of tokens are left out.
        """
        pairs = [(_real(precise(mine[pair.student]), batch, pair.stack), theirs[pair.teacher], pair.stack)
                 for pair in layer_pairs(arch, self.model.arch)
                 if mine[pair.student].shape[:2] == theirs[pair.teacher].shape[:2]]
        losses = [1 - F.cosine_similarity(one, _real(precise(other[..., :one.shape[-1]]), batch, stack), dim=-1).mean()
                  for one, other, stack in pairs if one.shape[-1] <= other.shape[-1]]
        return torch.stack(losses).mean() if losses else theirs[0].new_zeros(())


class DistillationLoss(TrainingLoss):
    """Labels and a teacher: one loss for each of `distill`.

    With `logits`, the labels have the weight `label_share` and the teacher's distribution the rest. Features are
    compared after matching layers; if channels do not correspond, a learned linear map projects the student's to the
    teacher's. Attention maps are compared if both layers record them.

    Args:
        student: the model to train, on its device.
        distill: any of `LOSSES`; none without a teacher.
        fade: whether the weight of the teacher decays to 0, because a student may become better.
        theseus: replaces layers of the student by those of a predecessor, for some steps.
        same_channels: whether channels and heads of both correspond, as slices of one store do. Another model may be
            the same in another order: its features are projected, and the means of attention maps over heads compared.

    Raises:
        InputError: attention is requested, but no two matching layers record maps.
    """

    def __init__(self, student: Transformer, teacher: Teacher | None, distill: Sequence[str], *, temperature: float,
                 label_share: float, feature_weight: float, attention_weight: float, fade: bool,
                 theseus: Theseus | None = None, same_channels: bool = True) -> None:
        super().__init__(("labels", *(name for name in LOSSES if name in distill)))
        self.part_weights = {"logits": 1 - label_share, "features": feature_weight, "attention": attention_weight}
        self.fade = fade
        self.teacher, self.theseus, self.temperature = teacher, theseus, temperature
        self.outputs = ("logits", *(name for name in LOSSES[1:] if name in distill))
        self.own = ("aux_loss",) if adds_loss(student.arch) else ()
        self.pairs = layer_pairs(student.arch, teacher.model.arch) if teacher else ()
        self.same_channels = same_channels
        self.projections = nn.ModuleList()  # linear maps; none if channels correspond
        if teacher is not None and len(self.outputs) > 1:
            _check_lengths(student.arch, teacher.model.arch)
        if teacher is not None and "attention" in distill:
            self._check_maps(student, teacher)
        if teacher is not None and "features" in distill and not (
                same_channels and student.arch.width == teacher.model.arch.width):
            self.projections.extend(_projection(student, teacher.model) for _ in self.pairs)

    @torch.no_grad()
    def fit_projections(self, student: Transformer, batches: Iterable[Batch], recipe: Recipe) -> None:
        """Initialise every projection as the least-squares map of the student's features to the teacher's."""
        if not self.projections or self.teacher is None:
            return
        sums = [_Sums() for _ in self.pairs]
        training = student.training
        student.eval()
        for batch in batches:
            mine, theirs = (outputs["features"] for outputs in (
                predict(student, student.arch, batch, recipe, ("features",)),
                self.teacher.tell(batch, recipe, ("features",))))
            for pair, equations in zip(self.pairs, sums):
                equations.add(_real(mine[pair.student], batch, pair.stack),
                              _real(theirs[pair.teacher], batch, pair.stack))
        for projection, equations in zip(self.projections, sums):
            projection.load_state_dict(equations.solved())
        student.train(training)

    def weights(self, done: float) -> list[float]:
        """The weights of the teacher's losses, decaying if `fade` is set; the labels have the rest."""
        left = 1 - done if self.fade else 1.0
        weights = {name: left * self.part_weights[name] for name in self.parts[1:]}
        return [1 - weights.get("logits", 0.0), *weights.values()]

    def losses(self, trainer: Trainer, arch: Architecture, batch: Batch) -> tuple[Tensor, ...]:
        """The losses of the labels and of each distillation part; layer losses count once per label."""
        theirs = self.teacher.tell(batch, trainer.recipe, self.outputs) if self.teacher else {}
        mine = self._student(trainer, arch, batch)
        logits, labels = labelled(mine["logits"], batch.labels)
        losses = {"labels": label_loss(logits, labels, trainer.recipe.label_smoothing)}
        if self.own:
            losses["labels"] = losses["labels"] + len(labels) * mine["aux_loss"]
        if "logits" in self.parts:
            losses["logits"] = teacher_loss(logits, labelled(theirs["logits"], batch.labels)[0], self.temperature)
        if "features" in self.parts:
            losses["features"] = len(labels) * self._features(mine["features"], theirs["features"], batch)
        if "attention" in self.parts:
            losses["attention"] = len(labels) * self._attention(mine["attention"], theirs["attention"], batch)
        return tuple(losses[name] for name in self.parts)

    def _student(self, trainer: Trainer, arch: Architecture, batch: Batch) -> Mapping[str, Any]:
        assert isinstance(trainer.model, Transformer), "only plain models can be distilled"
        if self.theseus is not None and self.theseus.is_replacing(trainer.progress.step):
            out: Mapping[str, Any] = self.theseus.predict(trainer.model, batch, trainer.recipe,
                                                            trainer.progress.step, ("logits", *self.own))
        else:
            out = predict(trainer.model, arch, batch, trainer.recipe, (*self.outputs, *self.own))
        return out

    def _features(self, mine: Sequence[Tensor], theirs: Sequence[Tensor], batch: Batch) -> Tensor:
        """The mean over the layers; projections run in the precision of weights, not of the forward pass."""
        maps = self.projections or [nn.Identity()] * len(self.pairs)
        return torch.stack([
            relative_feature_error(project(precise(mine[pair.student])), theirs[pair.teacher],
                                   mask_of(batch, pair.stack))
            for pair, project in zip(self.pairs, maps)]).mean()

    def _attention(self, mine: Sequence[Sequence[Tensor]], theirs: Sequence[Sequence[Tensor]], batch: Batch) -> Tensor:
        """The mean over the maps."""
        return torch.stack([attention_loss(*self._heads(one, other), mask_of(batch, pair.stack)) for pair in self.pairs
                            for one, other in _matched(mine[pair.student], theirs[pair.teacher])]).mean()

    def _heads(self, mine: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor]:
        """Attention maps to compare: of heads, or their means."""
        return (mine, theirs) if self.same_channels else (mine.mean(1, keepdim=True), theirs.mean(1, keepdim=True))

    @torch.no_grad()
    def _check_maps(self, student: Transformer, teacher: Teacher) -> None:
        arch = student.arch
        tokens = torch.zeros(1, 1, dtype=torch.long, device=next(student.parameters()).device)
        batch = Batch(tokens, tokens, tokens if arch.family == "seq2seq" else None)
        mine, theirs = (predict(model, model.arch, batch, Recipe(), ("attention",))["attention"]
                        for model in (student, teacher.model))
        if not any(_matched(mine[pair.student], theirs[pair.teacher]) for pair in self.pairs):
            message = "no pair of matching student and teacher layers has attention maps to compare; remove attention"
            raise InputError(f"{Option('distill')} attention", message)


def _digest(batch: Batch) -> bytes:
    """Equal for batches of equal inputs."""
    digest = hashlib.sha256(repr(tuple(batch.tokens.shape)).encode())
    for tensor in (batch.tokens, batch.mask, batch.types):
        digest.update(b"-" if tensor is None else tensor.cpu().contiguous().numpy().tobytes())
    return digest.digest()


def _projection(student: Transformer, teacher: Transformer) -> nn.Linear:
    """A map from the student's width to the teacher's, initialised as the identity: channels of supernet slices
    correspond."""
    like = next(student.parameters())
    projection = nn.Linear(student.arch.width, teacher.arch.width, device=like.device, dtype=like.dtype)
    nn.init.eye_(projection.weight)
    nn.init.zeros_(projection.bias)
    return projection


def mask_of(batch: Batch, stack: str) -> Tensor | None:
    """The real tokens that a stack reads."""
    return batch.target_mask if stack == "decoder" and batch.target is not None else batch.mask


def _check_lengths(*archs: Architecture) -> None:
    """Raises InputError if layers of the two models see different numbers of tokens."""
    short = next((step for arch in archs for step in plan(arch) if step.role in LENGTHS), None)
    if short is not None:
        raise InputError("distill", f"features and attention cannot be compared: {short.unit.block.kind} "
                                    f"({short.path}) changes the number of tokens; allowed: logits")


def _real(features: Tensor, batch: Batch, stack: str) -> Tensor:
    """(tokens, width) features of the real tokens."""
    mask = mask_of(batch, stack)
    return features.flatten(0, 1) if mask is None else features[mask]


def _matched(mine: Sequence[Tensor], theirs: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """The maps of two layers that can be compared, from the last on: a decoder's cross-attention comes last, and only
    one of two mixers may have maps."""
    return list(zip(reversed(mine), reversed(theirs)))


class _Sums:
    """Sufficient statistics of a least-squares fit with an intercept."""

    def __init__(self) -> None:
        self.squares: Any = 0.0
        self.products: Any = 0.0

    def add(self, inputs: Tensor, outputs: Tensor) -> None:
        x = torch.cat([inputs, torch.ones_like(inputs[:, :1])], dim=1).double().cpu()
        self.squares = self.squares + x.T @ x
        self.products = self.products + x.T @ outputs.double().cpu()

    def solved(self) -> dict[str, Tensor]:
        """Weight and bias of the best linear map; a small ridge term handles collinear channels."""
        squares: Tensor = self.squares
        ridge = 1e-3 * squares.diagonal().mean() * torch.eye(len(squares), dtype=squares.dtype)
        solution = torch.linalg.solve(squares + ridge, self.products)
        return {"weight": solution[:-1].T, "bias": solution[-1]}
