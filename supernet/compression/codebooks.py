"""Compact storage of tables with repeating sub-vectors: a code of few bits per sub-vector, and codebooks.

A table (rows, width) is cut into blocks of equally many columns. Each block has a codebook of its distinct sub-vectors.
The packing is lossless: sub-vectors repeat because of an earlier step, such as product quantisation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

CODES, BOOKS = ".codes", ".codebooks"
MOST = 256
"""Maximum number of sub-vectors of a codebook."""
SOME = 4 * MOST
"""Number of rows to check first: enough to reject most tables whose sub-vectors do not repeat."""


def repeats(tensor: Tensor) -> bool:
    """Whether codes and codebooks take less space than the table."""
    return _best_size(tensor) is not None


def pack(tensors: Mapping[str, Tensor], names: Iterable[str]) -> dict[str, Tensor]:
    """The tensors, with the named ones as codes and codebooks."""
    packed = dict(tensors)
    for name in names:
        table = packed.pop(name).detach().cpu()
        size = _best_size(table)
        assert size is not None, "see repeats"
        blocks = [torch.unique(block, dim=0, return_inverse=True) for block in torch.split(table, size, dim=1)]
        most = max(len(book) for book, _ in blocks)
        books = torch.stack([torch.cat([book, book.new_zeros(most - len(book), size)]) for book, _ in blocks])
        codes = torch.stack([code for _, code in blocks], dim=1).to(torch.uint8)
        packed |= {name + CODES: _packed(codes, _bits(most)), name + BOOKS: books}
    return packed


def unpack(tensors: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """The inverse of `pack`. Raises ValueError that says which tensor is damaged, KeyError that names a missing one."""
    unpacked = dict(tensors)
    for name, shape in shapes.items():
        packed, books = unpacked.pop(name + CODES), unpacked.pop(name + BOOKS)
        if len(shape) != 2 or books.dim() != 3 or books.shape[0] * books.shape[2] != shape[1] or len(books[0]) > MOST:
            raise ValueError(f"{name + BOOKS} has the shape {list(books.shape)}, for a table of {list(shape)}")
        n, bits = shape[0] * books.shape[0], _bits(books.shape[1])
        if packed.dtype != torch.uint8 or packed.shape != (math.ceil(n * bits / 8),):
            raise ValueError(f"{name + CODES} has {packed.numel()} bytes instead of {math.ceil(n * bits / 8)}")
        codes = _unpacked(packed, n, bits).view(shape[0], books.shape[0])
        if n and int(codes.max()) >= books.shape[1]:
            raise ValueError(f"{name + CODES} refers to a sub-vector beyond the {books.shape[1]} of a codebook")
        unpacked[name] = books[torch.arange(len(books)), codes].flatten(1)
    return unpacked


def _best_size(table: Tensor) -> int | None:
    """The sub-vector size with the least space; None if packing does not save space."""
    if table.dim() != 2 or not table.is_floating_point() or 0 in table.shape:
        return None
    rows, width = table.shape
    room = {size: _bytes(table, size) for size in range(1, width + 1) if width % size == 0}
    best = min(room, key=lambda size: room[size])
    return best if room[best] < rows * width * table.element_size() else None


def _bytes(table: Tensor, size: int) -> float:
    """Bytes of a table with sub-vectors of this size; infinite if a block has too many different ones."""
    first = len(torch.unique(table[:SOME, :size], dim=0))
    if first > MOST or first == len(table):
        return math.inf
    most = max(len(torch.unique(block, dim=0)) for block in torch.split(table, size, dim=1))
    n_blocks = table.shape[1] // size
    codes = math.ceil(len(table) * n_blocks * _bits(most) / 8)
    return codes + n_blocks * most * size * table.element_size() if most <= MOST else math.inf


def _bits(n: int) -> int:
    """Bits of a code for one of n sub-vectors."""
    return max((n - 1).bit_length(), 1)


def _packed(codes: Tensor, bits: int) -> Tensor:
    planes = np.unpackbits(codes.numpy()[..., None], axis=-1)[..., 8 - bits :]
    return torch.from_numpy(np.packbits(planes))


def _unpacked(packed: Tensor, n: int, bits: int) -> Tensor:
    planes = np.unpackbits(packed.numpy(), count=n * bits).reshape(n, bits)
    weights = 1 << np.arange(bits - 1, -1, -1)
    return torch.from_numpy(planes.astype(np.int64) @ weights)
