"""Matrices in eight and four bits: how numbers become integers, and products with them.

Products of eight-bit matrices multiply integers with integers. They are summed as float32, which is exact up to 1040
terms and as good as float32 beyond: what integer arithmetic gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from supernet.compression.matrices import Matrix

MOST = 127
"""The largest int8 value in use; the smallest is its negative, so that the range is symmetric."""
LEVELS = 16
"""Number of int4 values."""
FORWARD, BACKWARD = 0, 1
"""Indices of the two input scales of a matrix: used forward, or transposed."""

Watch = Callable[[int, Tensor], None]


class _Round(torch.autograd.Function):
    """Rounds to the nearest integer, with a straight-through gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]


def to_int8(weight: Tensor, axis: int = 1) -> tuple[Tensor, Tensor]:
    """A matrix as integers from -127 to 127, still as numbers and with a straight-through gradient, and their scales.

    Each output has a scale, its largest absolute weight over 127, so that quantising the result again changes nothing.

    Args:
        axis: the axis that its product sums over.
    """
    scale = _scale(weight.detach().abs().amax(axis))
    return _Round.apply(weight / scale.unsqueeze(axis)), scale  # type: ignore[no-untyped-call]


def _scale(greatest: Tensor) -> Tensor:
    return (greatest / MOST).clamp(min=torch.finfo(greatest.dtype).tiny)


@dataclass(frozen=True)
class Int8Matrix(Matrix):
    """A matrix in eight bits, multiplied with inputs in eight bits.

    Args:
        q: the integers, int8 or as numbers with a gradient.
        scale: of each output: the shape of `q` without the axis that is summed over.
        inputs: (2,) scales of its inputs, used forward and transposed; if it is None or 0, every token has its own
            scale, its largest absolute value over 127.
        watch: called with its inputs and the direction of use.
        axis: the axis that its product sums over.
    """

    q: Tensor
    scale: Tensor
    inputs: Tensor | None = None
    watch: Watch | None = None
    axis: int = 1

    def values(self) -> Tensor:
        return self.q * self.scale.unsqueeze(self.axis)

    def rows(self, ids: Tensor) -> Tensor:
        return self.q[ids] * (self.scale if self.axis == 0 else self.scale[ids].unsqueeze(-1))

    def linear(self, x: Tensor) -> Tensor:
        return self._product(x, FORWARD, 1, F.linear)

    def turned(self, x: Tensor) -> Tensor:
        return self._product(x, BACKWARD, 0, torch.matmul)

    def grouped(self, x: Tensor) -> Tensor:
        x, scale = self._integers(x, FORWARD)
        return torch.bmm(x, self.q.to(x.dtype)) * (scale * self.scale.unsqueeze(1))

    def _product(self, x: Tensor, use: int, summed: int, multiply: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Scales along the summed axis are applied to the inputs before these are rounded."""
        if summed == self.axis:
            x, scale = self._integers(x, use)
            return multiply(x, self.q.to(x.dtype)) * (scale * self.scale)
        x, scale = self._integers(x * self.scale, use)
        return multiply(x, self.q.to(x.dtype)) * scale

    def _integers(self, x: Tensor, use: int) -> tuple[Tensor, Tensor]:
        x = x.to(self.scale.dtype)
        if self.watch is not None:
            self.watch(use, x)
        if self.inputs is None or not self.inputs[use]:
            scale = _scale(x.detach().abs().amax(-1, keepdim=True))
            x = x / scale
        else:
            scale = self.inputs[use]
            x = (x / scale).clamp(-MOST, MOST)
        return _Round.apply(x), scale  # type: ignore[no-untyped-call]


def to_int4(weight: Tensor, group: int, axis: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """A matrix in four bits: packed integers, the scale of each group of inputs and its packed zero point.

    A group spans its minimum, its maximum and 0; 0 is exactly representable. The summed axis (`axis`) comes last; the
    last group of a row may be shorter.
    """
    rows = weight.detach().movedim(axis, -1)
    groups = F.pad(rows, (0, -rows.shape[-1] % group))  # every range contains 0
    groups = torch.unflatten(groups, -1, (-1, group))
    low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
    step = ((high - low) / (LEVELS - 1) * (1 + 2**-10)).clamp(min=2**-14).half()  # never rounded down
    zero = (-low / step.float()).round()
    q = (groups / step.float()[..., None] + zero[..., None]).round().clamp(0, LEVELS - 1)
    return pack(q.flatten(-2)[..., : rows.shape[-1]]), step, pack(zero)


def pack(integers: Tensor) -> Tensor:
    """(..., n) integers of four bits -> (..., half of it) bytes, the first in the lower half of the first."""
    integers = F.pad(integers, (0, integers.shape[-1] % 2)).to(torch.uint8)
    return integers[..., ::2] | integers[..., 1::2] << 4


def unpack(packed: Tensor, n: int) -> Tensor:
    """The inverse of `pack`."""
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)[..., :n]


@dataclass(frozen=True)
class Int4Matrix(Matrix):
    """A matrix in four bits, multiplied after dequantisation.

    Args:
        q: packed integers, `scale` and `zero` as `to_int4` gives them.
        n: how many inputs there are.
        group: how many of them have one scale.
        axis: the axis that its product sums over.
    """

    q: Tensor
    scale: Tensor
    zero: Tensor
    n: int
    group: int
    axis: int = 1

    def values(self) -> Tensor:
        return self._numbers(self.q, self.scale, self.zero).movedim(-1, self.axis)

    def rows(self, ids: Tensor) -> Tensor:
        if self.axis == 0:
            return self.values()[ids]
        return self._numbers(self.q[ids], self.scale[ids], self.zero[ids])

    def _numbers(self, q: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        scale = scale if scale.dtype == torch.float64 else scale.float()
        zeros = unpack(zero, scale.shape[-1]).to(scale)
        scales, zeros = (table.repeat_interleave(self.group, -1)[..., : self.n] for table in (scale, zeros))
        return (unpack(q, self.n) - zeros) * scales
