"""The branches of the Evolved Transformer: a wide map and a narrow convolution, added and convolved again."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import TIMES_WIDTH, Dim, DrawnPart, Kind
from supernet.call import Call
from supernet.declared import Product
from supernet.layers.attention import RESIDUAL_GAIN
from supernet.layout import Layout


class EvolvedBranches(nn.Module):
    """Lin(sepconv(norm(relu(Lin(x)) + relu(conv(x))))): the left branch is `inner` wide, the right half the width."""

    def __init__(self, *, width: int, causal: bool, bias: bool, inner: int, kernel: int, mix_kernel: int) -> None:
        super().__init__()
        self.width, self.inner, self.kernel, self.mix_kernel, self.causal = width, inner, kernel, mix_kernel, causal
        self.left = nn.Linear(width, inner, bias=bias)
        self.narrow = min(width // 2, inner)
        self.right = nn.Linear(kernel * width, self.narrow, bias=bias)
        self.norm = nn.LayerNorm(inner)
        self.taps = nn.Parameter(torch.zeros(inner, mix_kernel))
        self.leave = nn.Linear(inner, width, bias=bias)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        held = (None, None) if call.state is None else call.state.tensors
        n, window = x.shape[1], self._window(x, call.mask, self.kernel, held[0])
        taps = torch.cat([window[:, tap : tap + n] for tap in range(self.kernel)], dim=-1)
        right = F.pad(F.relu(self.right(taps)), (0, self.inner - self.narrow))
        y = self.norm(F.relu(self.left(x)) + right)
        mixed = self._window(y, call.mask, self.mix_kernel, held[1])
        if call.state is not None:
            call.state.tensors = (window[:, n:], mixed[:, n:])
        out: Tensor = self.leave(F.conv1d(mixed.transpose(1, 2), self.taps[:, None],
                                          groups=self.inner).transpose(1, 2))
        return out

    def _window(self, x: Tensor, mask: Tensor | None, kernel: int, held: Tensor | None) -> Tensor:
        """x with the neighbours that a kernel needs: zeros, or those that came before."""
        if mask is not None:
            x = x.masked_fill(~mask[:, -x.shape[1] :, None], 0.0)
        if held is not None:
            return torch.cat([held, x], dim=1)
        return F.pad(x, (0, 0, kernel - 1, 0) if self.causal else (0, 0, kernel // 2, kernel // 2))

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """The windows of both convolutions, however many tokens there were."""
        return (batch, self.kernel - 1, self.width), (batch, self.mix_kernel - 1, self.inner)

    def matrices(self) -> dict[str, Product]:
        return {"taps": Product.NONE}

    def layouts(self) -> dict[str, Layout]:
        """Shorter kernels are the middle (or, causal, the end) of longer ones."""
        near = "suffix" if self.causal else "center"
        return {
            "right.weight": Layout((self.narrow, self.kernel, self.width), ("prefix", near, "prefix"),
                                   inputs=(1, 2)),
            "taps": Layout(keep=("prefix", near)),
            "leave.weight": Layout(gain=RESIDUAL_GAIN),
        }


KIND = Kind(
    name="evolved",
    role="mixer",
    module=EvolvedBranches,
    help="wide linear map and convolution in parallel, then a separable convolution (Evolved Transformer)",
    paper="So et al. (2019), The Evolved Transformer, arXiv:1901.11117",
    dims=(
        Dim("inner", int, "channels of the wide branch", default="4x", expressions=(TIMES_WIDTH,)),
        Dim("kernel", int, "kernel size of the narrow branch", default=3, odd=True, most=1023),
        Dim("mix_kernel", int, "kernel size of the separable convolution", default=9, odd=True, most=1023),
    ),
    facts=("width", "causal", "bias"),
    words=lambda dims, width: ("evolved", str(dims["inner"]), f"kernels {dims['kernel']}, {dims['mix_kernel']}"),
    parts=lambda dims, width: (DrawnPart(dims["inner"], "deep"),
                               DrawnPart(min(width // 2, dims["inner"]), "convolves")),
)
