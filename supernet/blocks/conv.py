"""Lightweight or dynamic convolution over all channels: a token mixer without attention."""

from __future__ import annotations

from torch import Tensor, nn

from search_spaces.kind import Dim, DrawnPart, Kind, Rule
from supernet.call import Call
from supernet.layers.convolution import ConvBranch

CONV_DIMS = (
    Dim("kernel", int, "kernel size", odd=True, most=1023),
    Dim("conv_heads", int, "number of kernels, each shared by consecutive channels", default=4),
    Dim("conv", str, "learned (light) or computed (dynamic) kernels", default="light", choices=("light", "dynamic")),
    Dim("glu", bool, "whether the input projection is gated (GLU)", default=True),
)
"""The dims of all kinds with convolution."""


class Convolution(nn.Module):
    """Convolution over neighbouring tokens."""

    def __init__(self, *, width: int, causal: bool, bias: bool, kernel: int, conv_heads: int, conv: str,
                 glu: bool) -> None:
        super().__init__()
        self.convolve = ConvBranch(channels=width, kernel=kernel, conv_heads=conv_heads, conv=conv, glu=glu,
                                   causal=causal, bias=bias)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        return self.convolve(x, call.mask, call.state)

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        return self.convolve.state_shapes(batch, past)


KIND = Kind(
    name="conv",
    role="mixer",
    module=Convolution,
    help="lightweight or dynamic convolution",
    paper="Wu et al. (2019), Pay Less Attention with Lightweight and Dynamic Convolutions, arXiv:1901.10430",
    dims=CONV_DIMS,
    facts=("width", "causal", "bias"),
    rules=(Rule(("conv_heads", "width"), lambda heads, width: width % heads == 0, "conv_heads must divide the width"),),
    words=lambda dims, width: ("convolution", f"{dims['conv']} kernel {dims['kernel']}"),
    parts=lambda dims, width: (DrawnPart(width, "convolves"),),
)
