"""Norm, block and residual together: the piece a layer is made of."""

from __future__ import annotations

from torch import Tensor, nn

from supernet.call import Call
from supernet.norms import make_norm


class SubLayer(nn.Module):
    """x + block(norm(x)) for placement `pre`, norm(x + block(x)) for `post`."""

    def __init__(self, block: nn.Module, *, width: int, norm: str, placement: str) -> None:
        super().__init__()
        self.norm = make_norm(norm, width)
        self.block = block
        self.drop = nn.Dropout(0.0)
        self.pre = placement == "pre"

    def forward(self, x: Tensor, call: Call) -> Tensor:
        if self.pre:
            return x + self.drop(self.block(self.norm(x), call))
        return self.norm(x + self.drop(self.block(x, call)))
