"""Feed-forward networks one after the other at a reduced width, as in MobileBERT."""

from __future__ import annotations

from torch import Tensor, nn

from supernet.call import Call
from supernet.layers.norms import make_norm


class FeedForwardStack(nn.Module):
    """x -> norm(x + f(x)) for every f of a list.

    Args:
        feed_forwards: blocks of the role `ffn` at that width.
    """

    def __init__(self, feed_forwards: list[nn.Module], width: int, norm: str) -> None:
        super().__init__()
        self.ffns = nn.ModuleList(feed_forwards)
        self.norms = nn.ModuleList(make_norm(norm, width) for _ in feed_forwards)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        """(batch, n, width) -> the same."""
        for ffn, norm in zip(self.ffns, self.norms):
            x = norm(x + ffn(x, call))
        return x


class Narrowed(nn.Module):
    """The linear map and norm that lead into a bottleneck."""

    def __init__(self, width: int, narrow: int, norm: str, bias: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(width, narrow, bias=bias)
        self.norm = make_norm(norm, narrow)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.linear(x))
