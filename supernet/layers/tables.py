"""Tables determined by the architecture (sinusoids, rotations): computed, never stored."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

TABLE_STD = 0.02
"""Standard deviation of initial embedding tables and output matrices."""


def table(rows: int, dim: int) -> nn.Embedding:
    """An embedding table whose values are set later, by the layout's rule."""
    return nn.Embedding(rows, dim, _weight=torch.empty(rows, dim))


class Table(nn.Module):
    """Holds a derived table as a buffer outside the state dict.

    Args:
        make: computes it; called on the CPU whatever the surrounding default device is.
        shape: of the table. On the meta device nothing is computed: there, the first `arange` takes seconds.
    """

    values: Tensor

    def __init__(self, make: Callable[[], Tensor], shape: tuple[int, ...]) -> None:
        super().__init__()
        self.make = make
        self.register_buffer("values", torch.empty(shape) if torch.empty(0).is_meta else self.compute(),
                             persistent=False)

    def compute(self) -> Tensor:
        """The table on the CPU."""
        with torch.device("cpu"):
            return self.make()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Table:
        """Moving a module off the meta device leaves its tensors uninitialised, so the table is computed then."""
        unset = self.values.is_meta
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if unset and not self.values.is_meta:
            self.values = self.compute().to(self.values)
        return self


def sinusoids(length: int, width: int, slowest: bool = True) -> Tensor:
    """(length, width): sines in the first half of the channels, cosines in the second.

    Args:
        slowest: whether the wavelengths reach 2 pi x 10,000 (tensor2tensor), or end one step before it (the paper).
    """
    half = (width + 1) // 2
    steps = torch.arange(half, dtype=torch.float64) / (max(half - 1, 1) if slowest else half)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * torch.exp(-steps * torch.log(torch.tensor(1e4)))
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width].float()


def rotations(length: int, head_dim: int, base: float = 1e4) -> Tensor:
    """(2, length, head_dim): cosines and sines of the rotary angle of every position and channel."""
    half = head_dim // 2
    frequencies = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies
    angles = torch.cat([angles, angles], dim=1)
    return torch.stack([angles.cos(), angles.sin()]).float()


def rows(table: Tensor, position: int | Tensor, n: int) -> Tensor:
    """Rows of a table for `n` positions: (n, width) from a first one on, (batch, n, width) of given ones."""
    return F.embedding(position, table) if isinstance(position, Tensor) else table[position : position + n]


def rotate(x: Tensor, table: Tensor, position: int | Tensor = 0) -> Tensor:
    """Rotate (batch, heads, n, head_dim) by position; `table` is as of `rotations`, `position` as of `rows`."""
    cos, sin = (rows(table[i], position, x.shape[-2]) for i in (0, 1))
    if cos.dim() > 2:
        cos, sin = cos[:, None], sin[:, None]
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin
