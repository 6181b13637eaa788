"""Compact storage of tensors with many zeros: one bit per number, and the non-zero numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

BITS, VALUES = ".bits", ".values"


def is_sparse(tensor: Tensor) -> bool:
    """Whether the bits take less space than the zeros they replace."""
    zeros = tensor.numel() - int(tensor.count_nonzero())
    return zeros * tensor.element_size() > math.ceil(tensor.numel() / 8)


def pack(tensors: Mapping[str, Tensor], names: Iterable[str]) -> dict[str, Tensor]:
    """The tensors, with the named ones packed."""
    packed = dict(tensors)
    for name in names:
        tensor = packed.pop(name).detach().cpu().flatten()
        kept = tensor != 0
        packed |= {name + BITS: torch.from_numpy(np.packbits(kept.numpy())), name + VALUES: tensor[kept]}
    return packed


def unpack(tensors: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """The inverse of `pack`. Raises ValueError that says which tensor is damaged, KeyError that names a missing one."""
    unpacked = dict(tensors)
    for name, shape in shapes.items():
        bits, values, n = unpacked.pop(name + BITS), unpacked.pop(name + VALUES), math.prod(shape)
        if bits.dtype != torch.uint8 or bits.shape != (math.ceil(n / 8),):
            raise ValueError(f"{name + BITS} has {bits.numel()} bytes instead of {math.ceil(n / 8)}")
        kept = torch.from_numpy(np.unpackbits(bits.numpy(), count=n)).bool()
        if values.shape != (int(kept.sum()),):
            raise ValueError(f"{name + VALUES} has {values.numel()} numbers instead of {int(kept.sum())}")
        unpacked[name] = values.new_zeros(n).masked_scatter(kept, values).view(shape)
    return unpacked
