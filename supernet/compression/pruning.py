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
    matrices = weights(model).values()
    return 1 - sum(int(matrix.count_nonzero()) for matrix in matrices) / sum(matrix.numel() for matrix in matrices)


def zeros(model: Transformer) -> dict[str, Tensor]:
    """The masks of an already pruned model; none if it is not pruned."""
    matrices = weights(model)
    return {name: weight != 0 for name, weight in matrices.items()} if any(map(is_sparse, matrices.values())) else {}


def magnitude_masks(model: Transformer, share: float) -> dict[str, Tensor]:
    """Masks that prune this share of all weights, the smallest of the whole model."""
    matrices = weights(model)
    flat = torch.cat([matrix.abs().flatten() for matrix in matrices.values()])
    mask = torch.ones_like(flat, dtype=torch.bool)
    mask[flat.argsort(stable=True)[: round(share * flat.numel())]] = False
    parts = torch.split(mask, [matrix.numel() for matrix in matrices.values()])
    return {name: part.view_as(weight) for (name, weight), part in zip(matrices.items(), parts)}


def masked(weight: Tensor, mask: Tensor | None) -> Tensor:
    """A weight with zeros where the mask says so, which get no gradient."""
    return weight if mask is None else torch.where(mask, weight, 0.0)
