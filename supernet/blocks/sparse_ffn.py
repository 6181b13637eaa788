"""Terraformer's feed-forward: a small controller keeps one of every few inner channels."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import TIMES_WIDTH, Dim, DrawnPart, Kind, Rule
from supernet.call import Call
from supernet.declared import Product
from supernet.layers.attention import RESIDUAL_GAIN
from supernet.layers.graphs import one_row
from supernet.layout import Layout

TEMPERATURE, HARD = 0.1, 0.3
"""Temperature of the noisy softmax in training, and share of tokens that choose one channel only, as published."""


class SparseFeedForward(nn.Module):
    """relu(x W) W2 in which every `block` inner channels keep only the one that the controller scores highest.

    Training mixes the channels of a block by a softmax with Gumbel noise. Skipping the other channels saves time for
    one token; several tokens need most channels, and are computed densely.
    """

    def __init__(self, *, width: int, bias: bool, inner: int, block: int, controller: int) -> None:
        super().__init__()
        self.block = block
        self.narrow = nn.Linear(width, controller, bias=False)
        self.score = nn.Linear(controller, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=bias)
        self.down = nn.Parameter(torch.empty(inner, width))
        self.shift = nn.Parameter(torch.zeros(width)) if bias else None
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        scores = self.score(self.narrow(x)).unflatten(-1, (-1, self.block))
        if not self.training and one_row(x.flatten(0, 1)):
            y = self._gathered(x, scores)
        else:
            kept = self._drawn(scores) if self.training else _highest(scores)
            y = self.drop((self.up(x).relu().unflatten(-1, (-1, self.block)) * kept).flatten(-2)) @ self.down
        return y if self.shift is None else y + self.shift

    def _drawn(self, scores: Tensor) -> Tensor:
        soft = F.gumbel_softmax(scores.float(), TEMPERATURE)
        hard = (_highest(soft) - soft).detach() + soft  # the gradient is that of the softmax
        return torch.where(torch.rand_like(soft[..., :1, :1]) < HARD, hard, soft).to(scores.dtype)

    def _gathered(self, x: Tensor, scores: Tensor) -> Tensor:
        first = torch.arange(0, self.down.shape[0], self.block, device=x.device)
        kept = scores.argmax(-1) + first
        inner = torch.matmul(self.up.weight[kept], x[..., None])[..., 0]
        inner = (inner if self.up.bias is None else inner + self.up.bias[kept]).relu()
        return torch.matmul(inner[..., None, :], self.down[kept])[..., 0, :]

    def matrices(self) -> dict[str, Product]:
        """The controller stays precise: a rounded one would keep other channels."""
        return {"down": Product.MATMUL, "narrow.weight": Product.NONE, "score.weight": Product.NONE}

    def layouts(self) -> dict[str, Layout]:
        """The number of blocks and their size are elastic independently, so they are separate axes in the store."""
        shape = (self.down.shape[0] // self.block, self.block)
        return {"score.weight": Layout((*shape, self.score.in_features)),
                "up.weight": Layout((*shape, self.up.in_features)), "up.bias": Layout(shape),
                "down": Layout((*shape, self.down.shape[1]), inputs=(0,), gain=RESIDUAL_GAIN),
                "shift": Layout(init="zeros")}


def _highest(scores: Tensor) -> Tensor:
    """1 where the score is the highest of the last axis, else 0."""
    return F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype)


KIND = Kind(
    name="sparse_ffn",
    role="ffn",
    module=SparseFeedForward,
    help="sparse feed-forward: computes one inner channel of each block",
    paper="Jaszczur et al. (2021), Sparse is Enough in Scaling Transformers, arXiv:2111.12763",
    dims=(
        Dim("inner", int, "inner width", expressions=(TIMES_WIDTH,)),
        Dim("block", int, "inner channels per block; one of them is computed", least=2),
        Dim("controller", int, "inner width of the controller"),
    ),
    facts=("width", "bias"),
    rules=(Rule(("inner", "block"), lambda inner, block: inner % block == 0, "block must divide inner"),),
    words=lambda dims, width: ("sparse FFN", str(dims["inner"]), f"1 of {dims['block']}"),
    parts=lambda dims, width: (DrawnPart(dims["inner"] / dims["block"]),),
)
