"""ReZero with norms (Bachlechner et al., 2020; Narang et al., 2021): every sub-layer starts as the identity."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from search_spaces.residual import ResidualKind
from supernet.layers.norms import make_norm
from supernet.layout import Layout
from supernet.residuals._base import Residual, Sub


class ReZeroNorm(Residual):
    """x + alpha * block(norm(x)), where alpha is one learned number that starts at 0."""

    norm: nn.Module

    def __init__(self, block: nn.Module, *, width: int, norm: str, norm_eps: float = 0.0) -> None:
        super().__init__(block, make_norm(norm, width, norm_eps))
        self.alpha = nn.Parameter(torch.zeros(1))

    def add(self, streams: Tensor, sub: Sub) -> Tensor:
        return streams + self.alpha * sub(self.norm(streams))

    def layouts(self) -> dict[str, Layout]:
        return {"alpha": Layout(init="zeros", bank="rezero_norm")}


RESIDUAL = ResidualKind(
    name="rezero_norm",
    module=ReZeroNorm,
    facts=("width", "norm", "norm_eps"),
    closing_norm=lambda facts: True,
    help="x + alpha * f(norm(x)); alpha starts at 0",
)
