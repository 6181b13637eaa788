"""The norms an architecture can name."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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
    """MobileBERT's stand-in: an element-wise affine map, no statistics."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.bias

    def layouts(self) -> dict[str, Layout]:
        return {"weight": Layout(bank="none"), "bias": Layout(bank="none")}


def make_norm(name: str, width: int) -> nn.Module:
    """The norm module of that name over `width` channels."""
    if name == "layernorm":
        return LayerNorm(width, eps=1e-5)
    return RMSNorm(width, eps=1e-6) if name == "rmsnorm" else NoNorm(width)
