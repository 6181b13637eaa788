"""Mixture of experts: a router sends every token to its best few feed-forward networks; with one it is Switch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import TIMES_WIDTH, Dim, DrawnPart, Kind
from supernet.blocks.ffn import ACTIVATIONS
from supernet.call import Call
from supernet.declared import Product
from supernet.layers.attention import RESIDUAL_GAIN
from supernet.layers.graphs import one_row
from supernet.layout import Layout

BALANCE = 0.01
"""Weight of the load-balancing loss, as in Switch Transformers."""


class MixtureOfExperts(nn.Module):
    """The sum of the `top_k` experts with the greatest router probabilities p, each multiplied by its p.

    Every token reaches its experts: none has a capacity. A static graph cannot loop over as many tokens as an expert
    happens to get, so an exported graph of several tokens runs all experts and ignores most results.
    """

    def __init__(self, *, width: int, bias: bool, experts: int, top_k: int, inner: int, activation: str) -> None:
        super().__init__()
        self.experts, self.top_k, self.activate = experts, top_k, ACTIVATIONS[activation]
        self.route = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.empty(experts, width, inner))
        self.down = nn.Parameter(torch.empty(experts, inner, width))
        self.up_bias = nn.Parameter(torch.zeros(experts, inner)) if bias else None
        self.down_bias = nn.Parameter(torch.zeros(experts, width)) if bias else None
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        tokens = x.flatten(0, 1)
        shares = self.route(tokens).float().softmax(-1)
        weights, chosen = shares.topk(self.top_k)
        if call.losses is not None:
            call.losses.append(BALANCE * balance_loss(shares, chosen, call.mask))
        if one_row(tokens):
            y = self._gathered(tokens, weights, chosen)
        elif torch.compiler.is_compiling():
            y = self._dense(tokens, weights, chosen)
        else:
            y = self._looped(tokens, weights, chosen)
        return y.to(x.dtype).view_as(x)

    def _looped(self, tokens: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Expert by expert, each on the tokens that it gets."""
        y, up, down = torch.zeros_like(tokens), self.up.unbind(), self.down.unbind()
        for i in range(self.experts):
            rows, place = (chosen == i).nonzero(as_tuple=True)
            inner = tokens[rows] @ up[i]
            inner = self.drop(self.activate(inner if self.up_bias is None else inner + self.up_bias[i]))
            out = inner @ down[i]
            out = out if self.down_bias is None else out + self.down_bias[i]
            y = y.index_add(0, rows, (out * weights[rows, place, None]).to(y.dtype))
        return y

    def _gathered(self, tokens: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Token by token, each with copies of its experts."""
        inner = torch.matmul(tokens[:, None, None], self.up[chosen])[:, :, 0]
        inner = self.activate(inner if self.up_bias is None else inner + self.up_bias[chosen])
        out = torch.matmul(inner[:, :, None], self.down[chosen])[:, :, 0]
        out = out if self.down_bias is None else out + self.down_bias[chosen]
        return (out * weights[..., None]).sum(1)

    def _dense(self, tokens: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Every expert on every token."""
        inner = torch.matmul(tokens, self.up)
        inner = self.activate(inner if self.up_bias is None else inner + self.up_bias[:, None])
        out = torch.matmul(inner, self.down)
        out = out if self.down_bias is None else out + self.down_bias[:, None]
        taken = (F.one_hot(chosen, self.experts) * weights[..., None]).sum(1)
        return (out * taken.t()[..., None]).sum(0)

    def matrices(self) -> dict[str, Product]:
        """The router stays precise: a rounded one would send tokens elsewhere."""
        return {"up": Product.GROUPED, "down": Product.GROUPED,
                **dict.fromkeys(("route.weight", "up_bias", "down_bias"), Product.NONE)}

    def layouts(self) -> dict[str, Layout]:
        return {"up": Layout(inputs=(1,)), "down": Layout(inputs=(1,), gain=RESIDUAL_GAIN),
                "up_bias": Layout(init="zeros"), "down_bias": Layout(init="zeros")}


def balance_loss(shares: Tensor, chosen: Tensor, mask: Tensor | None) -> Tensor:
    """1 where the experts get equally many of the real tokens, more where they do not.

    Args:
        shares: (tokens, experts) router probabilities.
        chosen: (tokens, k) experts.
        mask: true for real tokens; None if all are real.
    """
    if mask is not None:
        shares, chosen = shares[mask.flatten()], chosen[mask.flatten()]
    experts = shares.shape[1]
    loads = torch.bincount(chosen.flatten(), minlength=experts) / max(chosen.numel(), 1)
    return experts * (loads * shares.sum(0) / max(len(shares), 1)).sum()


KIND = Kind(
    name="moe",
    role="ffn",
    module=MixtureOfExperts,
    help="mixture of experts; top_k 1 is the Switch layer",
    paper="Shazeer et al. (2017), Outrageously Large Neural Networks, arXiv:1701.06538; "
          "Fedus et al. (2021), Switch Transformers, arXiv:2101.03961",
    dims=(
        Dim("experts", int, "number of experts (feed-forward networks)", least=2),
        Dim("top_k", int, "experts per token, clipped to experts", default=1, at_most="experts"),
        Dim("inner", int, "inner width of an expert", expressions=(TIMES_WIDTH,)),
        Dim("activation", str, "activation", default="relu",
            choices=tuple(name for name in ACTIVATIONS if name != "linear")),
    ),
    facts=("width", "bias"),
    adds_loss=True,
    words=lambda dims, width: ("experts", f"{dims['top_k']} of {dims['experts']}", str(dims["inner"]),
                               dims["activation"]),
    parts=lambda dims, width: (DrawnPart(dims["inner"]),) * min(dims["top_k"], 4),
)
