"""Adaptively sparse attention: alpha-entmax instead of softmax, with an alpha that each head learns."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from search_spaces.kind import Kind
from supernet.blocks.attention import ATTENDS, EVEN_HEADS, OWN_HEADS, drawn_heads, heads_in_words
from supernet.call import Call
from supernet.layers.attention import past_mask
from supernet.layers.self_heads import SelfHeads, appended
from supernet.layout import Layout

HALVINGS = 20
"""Number of bisections of the interval of length 1 that holds the threshold; a Newton step then doubles the digits."""
LEAST = 0.02
"""Minimum of alpha - 1; at 0 entmax is softmax, which its formula does not cover."""


def entmax(scores: Tensor, excess: Tensor) -> Tensor:
    """Weights p = [(alpha - 1) z - t]_+ ^ (1 / (alpha - 1)) over the last axis, with the t that makes their sum 1.

    The threshold is found by bisection without a gradient; a step of Newton's method then makes it exact and gives it
    the gradient of the implicit function, in the scores and in alpha.

    Args:
        scores: z; very negative where nothing may be seen.
        excess: alpha - 1, in (0, 1].
    """
    z = (scores - scores.amax(dim=-1, keepdim=True)) * excess
    power = 1 / excess
    with torch.no_grad():
        low, high = -torch.ones_like(z[..., :1]), torch.zeros_like(z[..., :1])
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            enough = ((z - middle).clamp(min=0) ** power).sum(dim=-1, keepdim=True) >= 1
            low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
        slope = (power * (z - low).clamp(min=0) ** (power - 1)).sum(dim=-1, keepdim=True)
    threshold = low + (((z - low).clamp(min=0) ** power).sum(dim=-1, keepdim=True) - 1) / slope
    weights = (z - threshold).clamp(min=0) ** power
    return weights / weights.sum(dim=-1, keepdim=True)


class EntmaxAttention(SelfHeads):
    """Every token attends to the tokens that matter: weights below a threshold are exactly zero."""

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_heads: int,
                 head_dim: int) -> None:
        super().__init__(width=width, causal=causal, positions=positions, context=context, bias=bias, n_heads=n_heads,
                         head_dim=head_dim)
        self.alpha = nn.Parameter(torch.zeros(n_heads))

    def forward(self, x: Tensor, call: Call) -> Tensor:
        q, k, v = self.project(x, call.position)
        if call.state is not None:
            (k, v), call.state.tensors = appended(call.state.tensors, (k, v))
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        allowed = None if call.mask is None else call.mask[:, None, None, :]
        if self.causal:
            past = past_mask(q.shape[2], k.shape[2], x.device)
            allowed = past if allowed is None else allowed & past
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -1e4)
        if scores.dtype in (torch.bfloat16, torch.float16):  # a threshold needs more digits
            scores = scores.float()
        excess = self.alpha.to(scores.dtype).sigmoid().clamp(min=LEAST)
        weights = entmax(scores, excess[:, None, None]).to(v.dtype)
        if call.record is not None:
            call.record.attention.append(weights)
        return self.merged(self.drop(weights) @ v)

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """Keys and values of all tokens."""
        return ((batch, self.n_heads, past, self.head_dim),) * 2

    def layouts(self) -> dict[str, Layout]:
        """alpha = 1 + sigmoid(0) = 1.5 at the start, between softmax and sparsemax."""
        return super().layouts() | {"alpha": Layout(init="zeros")}


KIND = Kind(
    name="entmax_attention",
    role="mixer",
    module=EntmaxAttention,
    help="attention with learned sparsity, alpha-entmax (adaptively sparse Transformer)",
    paper="Correia et al. (2019), Adaptively Sparse Transformers, arXiv:1909.00015",
    dims=OWN_HEADS,
    facts=ATTENDS,
    rules=(EVEN_HEADS,),
    words=lambda dims, width: ("entmax attention", heads_in_words(dims)),
    parts=drawn_heads,
)
