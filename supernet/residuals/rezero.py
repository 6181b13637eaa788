"""ReZero (Bachlechner et al., 2020): no norms, and every sub-layer starts as the identity."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from search_spaces.residual import ResidualKind
from supernet.layout import Layout
from supernet.residuals._base import Residual, Sub


class ReZero(Residual):
    """x + alpha * block(x), where alpha is one learned number that starts at 0."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__(block)
        self.alpha = nn.Parameter(torch.zeros(1))

    def add(self, streams: Tensor, sub: Sub) -> Tensor:
        return streams + self.alpha * sub(streams)

    def layouts(self) -> dict[str, Layout]:
        return {"alpha": Layout(init="zeros", bank="rezero")}


RESIDUAL = ResidualKind(name="rezero", module=ReZero, help="x + alpha * f(x), without norms; alpha starts at 0")
