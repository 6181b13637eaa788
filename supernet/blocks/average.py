"""Average mixing (average attention network): every token gets the mean of the tokens it may see."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from search_spaces.kind import Dim, Kind
from supernet.call import Call
from supernet.layers.attention import RESIDUAL_GAIN
from supernet.layers.self_heads import real_tokens
from supernet.layout import Layout


class AverageMixing(nn.Module):
    """Lin(mean), or Lin(i * x + f * mean) with gates i, f = sigmoid(Lin([x, mean])). Decoding remembers the sum."""

    def __init__(self, *, width: int, causal: bool, bias: bool, gated: bool) -> None:
        super().__init__()
        self.width, self.causal = width, causal
        self.gates = nn.Linear(2 * width, 2 * width, bias=bias) if gated else None
        self.leave = nn.Linear(width, width, bias=bias)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        mean = self._mean(x, call)
        if self.gates is not None:
            own, other = self.gates(torch.cat([x, mean], dim=-1)).sigmoid().chunk(2, dim=-1)
            mean = own * x + other * mean
        out: Tensor = self.leave(mean)
        return out

    def _mean(self, x: Tensor, call: Call) -> Tensor:
        real = real_tokens(x, call.mask)[..., None].to(x.dtype)
        if not self.causal:
            return ((x * real).sum(dim=1, keepdim=True) / real.sum(dim=1, keepdim=True).clamp(min=1)).expand_as(x)
        sums, counts = (x * real).cumsum(dim=1), real.cumsum(dim=1)
        if call.state is not None:
            past = call.position if call.mask is None else call.mask[:, : -x.shape[1]].sum(dim=1)[:, None, None]
            sums, counts = sums + call.state.tensors[0][:, None], counts + past
            call.state.tensors = (sums[:, -1],)
        return sums / counts.clamp(min=1)

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """The sum of all tokens, however many there were."""
        return ((batch, self.width),)

    def layouts(self) -> dict[str, Layout]:
        """The token and the mean, and their gates, are stored separately."""
        width = self.width
        return {"gates.weight": Layout((2, width, 2, width), inputs=(2, 3)), "gates.bias": Layout((2, width)),
                "leave.weight": Layout(gain=RESIDUAL_GAIN)}


KIND = Kind(
    name="average",
    role="mixer",
    module=AverageMixing,
    help="mean of the previous tokens; in an encoder, of all tokens (average attention network)",
    paper="Zhang et al. (2018), Average Attention Network, arXiv:1805.00631",
    dims=(Dim("gated", bool, "whether learned gates weight the token and the mean", default=True),),
    facts=("width", "causal", "bias"),
    words=lambda dims, width: ("average", "gated" if dims["gated"] else ""),
)
