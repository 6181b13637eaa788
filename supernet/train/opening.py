"""Largest first, order, then open: training from scratch that orders the store by importance after the first phase."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from supernet.batch import Batch, Split
from supernet.supernet import Supernet
from supernet.train.ordering import order
from supernet.train.ordering.bench import permuted
from supernet.train.recipe import Recipe
from supernet.train.step import Trainer
from supernet.train.strategy import LargestFirst, Strategy

IMPORTANCE_BATCHES = 8


def opens_at(recipe: Recipe) -> int:
    """The step before which the store is ordered; 0 where it never is."""
    return max(round(recipe.order_at * recipe.steps), 1) if recipe.order_at else 0


def importance_batches(data: Split, recipe: Recipe, device: torch.device) -> list[Batch]:
    """The batches that importance is measured on: the first ones of the training data, whatever was trained."""
    return [data.batch(i, recipe.batch_size, recipe.seed).to(device) for i in range(IMPORTANCE_BATCHES)]


def largest_first(strategy: Strategy, net: Supernet, recipe: Recipe) -> Strategy:
    """The strategy, after the largest architecture was trained alone, where a recipe asks for that."""
    return LargestFirst(strategy, net.space.largest(), opens_at(recipe)) if recipe.order_at else strategy


@dataclass(frozen=True)
class OrderBeforeStep:
    """Orders the store of a trainer once, before the step that opens the space; see `Trainer.before_step`.

    Averages and moments move with their weights. The order is a function of weights, data and seed, so a training that
    is resumed before this step finds the same one.
    """

    step: int

    def __call__(self, trainer: Trainer) -> None:
        if trainer.progress.step != self.step or not isinstance(trainer.model, Supernet):
            return
        batches = importance_batches(trainer.data, trainer.recipe, trainer.device)
        order(trainer.model, batches, trainer.recipe.order_score,
              apply=lambda name, axis, span, entries: permute_state(trainer, name, axis, span, entries))


@torch.no_grad()
def permute_state(trainer: Trainer, stored: str, axis: int, span: int, entries: Tensor) -> None:
    """Permute a stored tensor, and the averages and moments that a trainer keeps of it, in place.

    Muon keeps moments as matrices, whatever axes the tensor has; step counts are not moments.
    """
    tensors = trainer.tensors()
    shape = tensors[f"model/{stored}"].shape
    for full, tensor in tensors.items():
        part, _, name = full.partition("/")
        name = name.partition("/")[2] if part == "adam" else name
        if name == stored and tensor.numel() == shape.numel():
            kept = tensor.view(shape)
            kept.copy_(permuted(kept, axis, span, entries))
