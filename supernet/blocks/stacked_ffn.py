"""MobileBERT's stacked feed-forward networks in a bottleneck, as a sub-layer of its own."""

from __future__ import annotations

from torch import Tensor, nn

from search_spaces.kind import TIMES_WIDTH, Dim, DrawnPart, Kind
from supernet.blocks.ffn import FeedForward
from supernet.call import Call
from supernet.layers.attention import RESIDUAL_GAIN
from supernet.layers.bottleneck import FeedForwardStack, Narrowed
from supernet.layout import Layout

PAPER = "Sun et al. (2020), MobileBERT, arXiv:2004.02984"
STACK_DIMS = (
    Dim("bottleneck", int, "reduced width", expressions=(TIMES_WIDTH,)),
    Dim("inner", int, "inner width of a feed-forward network", expressions=(TIMES_WIDTH,)),
    Dim("stack", int, "number of consecutive feed-forward networks", default=4, most=64),
    Dim("activation", str, "activation", default="relu", choices=("relu", "gelu")),
)
"""The dims of everything that stacks feed-forward networks."""


def make_stack(bottleneck: int, inner: int, stack: int, activation: str, norm: str, bias: bool) -> FeedForwardStack:
    """The feed-forward networks of these dims."""
    return FeedForwardStack([FeedForward(width=bottleneck, bias=bias, inner=inner, activation=activation, gated=False)
                             for _ in range(stack)], bottleneck, norm)


class StackedFeedForward(nn.Module):
    """Narrow, several feed-forward networks with residuals, widen."""

    def __init__(self, *, width: int, norm: str, bias: bool, bottleneck: int, inner: int, stack: int,
                 activation: str) -> None:
        super().__init__()
        self.enter = Narrowed(width, bottleneck, norm, bias)
        self.stack = make_stack(bottleneck, inner, stack, activation, norm, bias)
        self.leave = nn.Linear(bottleneck, width, bias=bias)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        return self.leave(self.stack(self.enter(x), call))

    def layouts(self) -> dict[str, Layout]:
        return {"leave.weight": Layout(gain=RESIDUAL_GAIN)}


KIND = Kind(
    name="stacked_ffn",
    role="ffn",
    module=StackedFeedForward,
    help="several feed-forward networks in a bottleneck",
    paper=PAPER,
    dims=STACK_DIMS,
    facts=("width", "norm", "bias"),
    words=lambda dims, width: ("stacked FFN", f"{dims['stack']} × {dims['inner']}", f"at {dims['bottleneck']}",
                               dims["activation"]),
    parts=lambda dims, width: (DrawnPart(dims["bottleneck"]),) * min(dims["stack"], 4),
)
