"""Gated short convolution (LFM2): a few taps per channel between two gates."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import Dim, DrawnPart, Kind
from supernet.call import Call
from supernet.declared import Product
from supernet.layers.attention import RESIDUAL_GAIN
from supernet.layout import Layout


class ShortConvolution(nn.Module):
    """b, c, z = Lin(x); y = Lin(c * conv(b * z)), the convolution with `kernel` taps for each channel."""

    def __init__(self, *, width: int, causal: bool, bias: bool, kernel: int) -> None:
        super().__init__()
        self.width, self.kernel, self.causal = width, kernel, causal
        self.enter = nn.Linear(width, 3 * width, bias=bias)
        self.taps = nn.Parameter(torch.zeros(width, kernel))
        self.leave = nn.Linear(width, width, bias=bias)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        before, after, x = self.enter(x).chunk(3, dim=-1)
        x = before * x
        if call.mask is not None:
            x = x.masked_fill(~call.mask[:, -x.shape[1] :, None], 0.0)
        if call.state is None:
            half = self.kernel // 2
            wide = F.pad(x, (0, 0, self.kernel - 1, 0) if self.causal else (0, 0, half, half))
        else:
            wide = torch.cat([*call.state.tensors, x], dim=1)
            call.state.tensors = (wide[:, x.shape[1] :],)
        y = F.conv1d(wide.transpose(1, 2), self.taps[:, None], groups=self.width).transpose(1, 2)
        out: Tensor = self.leave(after * y)
        return out

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """The window before the next token, however many tokens there were."""
        return ((batch, self.kernel - 1, self.width),)

    def matrices(self) -> dict[str, Product]:
        return {"taps": Product.NONE}

    def layouts(self) -> dict[str, Layout]:
        """Shorter kernels are the middle (or, causal, the end) of longer ones; the three maps are stored separately."""
        near = "suffix" if self.causal else "center"
        return {
            "enter.weight": Layout((3, self.width, self.width)),
            "enter.bias": Layout((3, self.width)),
            "taps": Layout(keep=("prefix", near)),
            "leave.weight": Layout(gain=RESIDUAL_GAIN),
        }


KIND = Kind(
    name="short_conv",
    role="mixer",
    module=ShortConvolution,
    help="gated short convolution (LFM2)",
    paper="Liquid AI (2025), LFM2 Technical Report, arXiv:2511.23404",
    dims=(Dim("kernel", int, "kernel size", default=3, odd=True, most=1023),),
    facts=("width", "causal", "bias"),
    words=lambda dims, width: ("gated convolution", f"kernel {dims['kernel']}"),
    parts=lambda dims, width: (DrawnPart(width, "convolves"),),
)
