"""Unstructured pruning: masks of matrices, and training that keeps pruned weights at 0."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from supernet.compression.matrices import matrices
from supernet.compression.sparse import is_sparse
from supernet.transformer import Transformer

Masks = Mapping[str, Tensor]
"""The name of a matrix -> true for weights that are kept."""


def weights(model: Transformer) -> dict[str, Tensor]:
    """Every matrix of a plain model by its name."""
    return {name: place.owner.get_parameter(place.name).detach() for name, place in matrices(model).items()}


def sparsity(model: Transformer) -> float:
    """The share of zeros among the weights of all matrices."""
    found = weights(model).values()
    return 1 - sum(int(each.count_nonzero()) for each in found) / sum(each.numel() for each in found)


def zeros(model: Transformer) -> dict[str, Tensor]:
    """The masks of an already pruned model; none if it is not pruned."""
    found = weights(model)
    return {name: weight != 0 for name, weight in found.items()} if any(map(is_sparse, found.values())) else {}


def magnitude_masks(model: Transformer, share: float) -> dict[str, Tensor]:
    """Masks that prune this share of all weights, the smallest of the whole model."""
    found = weights(model)
    flat = torch.cat([each.abs().flatten() for each in found.values()])
    mask = torch.ones_like(flat, dtype=torch.bool)
    mask[flat.argsort(stable=True)[: round(share * flat.numel())]] = False
    parts = torch.split(mask, [each.numel() for each in found.values()])
    return {name: part.view_as(weight) for (name, weight), part in zip(found.items(), parts)}


def masked(weight: Tensor, mask: Tensor | None) -> Tensor:
    """A weight with zeros where the mask says so, which get no gradient."""
    return weight if mask is None else torch.where(mask, weight, 0.0)
