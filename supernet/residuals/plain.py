"""The residual of the Transformer, with a norm before the block or after the sum."""

from __future__ import annotations

from torch import Tensor, nn

from search_spaces.residual import PLAIN, ResidualKind
from supernet.layers.norms import make_norm
from supernet.residuals._base import Residual, Sub


class PlainResidual(Residual):
    """x + block(norm(x)) for placement `pre`, norm(x + block(x)) for `post`."""

    norm: nn.Module

    def __init__(self, block: nn.Module, *, width: int, norm: str, placement: str, norm_eps: float = 0.0) -> None:
        super().__init__(block, make_norm(norm, width, norm_eps))
        self.pre = placement == "pre"

    def add(self, streams: Tensor, sub: Sub) -> Tensor:
        if self.pre:
            return streams + sub(self.norm(streams))
        return self.norm(streams + sub(streams))


RESIDUAL = ResidualKind(
    name=PLAIN,
    module=PlainResidual,
    facts=("width", "norm", "placement", "norm_eps"),
    closing_norm=lambda facts: facts.placement == "pre",
    help="x + f(norm(x)) or norm(x + f(x)), by placement",
)
