"""Fixup (Zhang et al., 2019): no norms; the last matrix of every sub-layer starts at 0."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from search_spaces.residual import ResidualKind
from supernet.layers.attention import RESIDUAL_GAIN
from supernet.layout import Layout, declared_layouts
from supernet.residuals._base import Residual, Sub


class Fixup(Residual):
    """x + scale * block(x + shift), with two learned scalars; `scale` starts at 1 and `shift` at 0.

    The publication also makes the other matrices of a sub-layer smaller, by the number of layers. That number is
    searched here, and the units of all depths share their weights, so these matrices start as with other residuals.
    """

    def __init__(self, block: nn.Module) -> None:
        super().__init__(block)
        self.scale = nn.Parameter(torch.ones(1))
        self.shift = nn.Parameter(torch.zeros(1))

    def add(self, streams: Tensor, sub: Sub) -> Tensor:
        return streams + self.scale * sub(streams + self.shift)

    def layouts(self) -> dict[str, Layout]:
        """Matrices that end a block have values of their own: with other residuals they do not start at 0."""
        closing = {f"block.{name}": replace(layout, init="zeros", bank=f"{layout.bank}fixup")
                   for name, layout in declared_layouts(self.block).items()
                   if RESIDUAL_GAIN in (layout.gain, layout.init)}
        return {"scale": Layout(init="ones", bank="fixup"), "shift": Layout(init="zeros", bank="fixup"), **closing}


RESIDUAL = ResidualKind(
    name="fixup",
    module=Fixup,
    help="x + scale * f(x + shift), without norms; the last matrix of f starts at 0",
)
