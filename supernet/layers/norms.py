"""The available norms."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from search_spaces.kind import NORM_EPS
from supernet.layout import Layout


class LayerNorm(nn.LayerNorm):
    """Layer normalisation over the active channels."""

    def layouts(self) -> dict[str, Layout]:
        return {"weight": Layout(bank="layernorm"), "bias": Layout(bank="layernorm")}


class RMSNorm(nn.RMSNorm):
    """Root-mean-square normalisation over the active channels."""

    def layouts(self) -> dict[str, Layout]:
        return {"weight": Layout(bank="rmsnorm")}


class NoNorm(nn.Module):
    """MobileBERT's NoNorm: an element-wise affine map without statistics."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.bias

    def layouts(self) -> dict[str, Layout]:
        return {"weight": Layout(bank="none"), "bias": Layout(bank="none")}


def make_norm(name: str, width: int, norm_eps: float = 0.0) -> nn.Module:
    """The norm module of that name over `width` channels; 0 is the norm's default eps."""
    if name == "layernorm":
        return LayerNorm(width, eps=norm_eps or NORM_EPS[name])
    return RMSNorm(width, eps=norm_eps or NORM_EPS[name]) if name == "rmsnorm" else NoNorm(width)
