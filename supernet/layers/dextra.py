"""DExTra: DeLighT's deep and light expand-reduce transformation, as plain modules."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supernet.declared import Product
from supernet.layout import Layout


class GroupLinear(nn.Module):
    """Linear map in `groups` independent parts, shuffle, LayerNorm within a group, Swish.

    Args:
        segments: sizes of the two parts (previous output, input) each group's input is made of.
        group_dim: outputs per group.
    """

    def __init__(self, segments: tuple[int, ...], group_dim: int, groups: int) -> None:
        super().__init__()
        self.segments, self.groups, self.group_dim = segments, groups, group_dim
        self.weight = nn.Parameter(torch.empty(groups, sum(segments), group_dim))
        self.bias = nn.Parameter(torch.zeros(groups, group_dim))
        self.norm = nn.LayerNorm(group_dim)
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, n, groups, sum(segments)) -> (batch, n, groups * group_dim)."""
        batch, n = x.shape[:2]
        x = x.reshape(batch * n, self.groups, -1).transpose(0, 1)
        y = torch.baddbmm(self.bias[:, None], x, self.weight)
        shuffled = y.permute(1, 2, 0).reshape(batch, n, self.groups, self.group_dim)
        return self.drop(F.silu(self.norm(shuffled))).flatten(2)

    def matrices(self) -> dict[str, Product]:
        return {"weight": Product.GROUPED, "bias": Product.NONE}

    def layouts(self) -> dict[str, Layout]:
        """Each number of groups has its own bank; both parts of the input are stored separately."""
        bank = f"g{self.groups}"
        return {
            "weight": Layout(bank=bank, parts=(1, self.segments), inputs=(1,)),
            "bias": Layout(bank=bank, init="zeros"),
            "norm.weight": Layout(bank=bank),
            "norm.bias": Layout(bank=bank),
        }


class Dense(nn.Module):
    """Linear map, LayerNorm, Swish."""

    def __init__(self, segments: tuple[int, ...], out_dim: int) -> None:
        super().__init__()
        self.segments = segments
        self.linear = nn.Linear(sum(segments), out_dim)
        self.norm = nn.LayerNorm(out_dim)

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(self.norm(self.linear(x)))

    def layouts(self) -> dict[str, Layout]:
        return {"linear.weight": Layout(parts=(1, self.segments))}


class DExTra(nn.Module):
    """Widens its input through `depth` group-linear layers to `multiplier` times, and narrows it again.

    Expanding layers are named from the front and reducing ones from the back, so that shallow units
    share both ends with deep ones.

    Args:
        in_dim: width of the input.
        inner_dim: width it is projected to first; mixed in again before every layer.
        out_dim: width of the output.
        group_start: groups of the first layer, 2 as released or 1 as in the paper's formula.
        max_groups: the most groups a layer may have.
    """

    def __init__(self, *, in_dim: int, inner_dim: int, out_dim: int, depth: int, multiplier: float, group_start: int,
                 max_groups: int) -> None:
        super().__init__()
        self.inner_dim = inner_dim
        self.enter = Dense((in_dim,), inner_dim)
        groups, widths = shapes(in_dim, inner_dim, out_dim, depth, multiplier, group_start, max_groups)
        self.groups = groups
        up, previous = math.ceil(depth / 2), 0
        for i, (count, width) in enumerate(zip(groups, widths)):
            parts = (previous // count, inner_dim // count) if i else (inner_dim // count,)
            name = f"up{i}" if i < up else f"down{depth - 1 - i}"
            self.add_module(name, GroupLinear(parts, width // count, count))
            previous = width
        self.names = [f"up{i}" if i < up else f"down{depth - 1 - i}" for i in range(depth)]
        self.leave = Dense((out_dim, inner_dim), out_dim)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, n, in_dim) -> (batch, n, out_dim)."""
        x = self.enter(x)
        y = _grouped(x, self.groups[0])
        for i, name in enumerate(self.names):
            y = self.get_submodule(name)(y)
            if i + 1 < len(self.names):
                groups = self.groups[i + 1]
                y = torch.cat([_grouped(y, groups), _grouped(x, groups)], dim=-1)
        return self.leave(torch.cat([y, x], dim=-1))


def _grouped(x: Tensor, groups: int) -> Tensor:
    """(batch, n, dim) -> (batch, n, groups, dim / groups)."""
    return torch.unflatten(x, -1, (groups, -1))


def shapes(in_dim: int, inner_dim: int, out_dim: int, depth: int, multiplier: float, group_start: int,
           max_groups: int) -> tuple[list[int], list[int]]:
    """Groups and widths of the group-linear layers, by the rule of the released models."""
    half = math.ceil(depth / 2)
    up_groups = [min(group_start * 2**i, max_groups) for i in range(half)]
    top = multiplier * in_dim
    up_widths = [int(inner_dim + (top - inner_dim) * i / max(half - 1, 1)) for i in range(half)]
    mirror = slice(None, None, -1) if depth % 2 == 0 else slice(-2, None, -1)
    groups, widths = up_groups + up_groups[mirror], up_widths + up_widths[mirror]
    for i in range(depth - 1):
        step = max(groups[i], groups[i + 1], 8)
        widths[i] = max(math.ceil(widths[i] / step), 1) * step
    widths[depth - 1] = out_dim
    return groups, widths
