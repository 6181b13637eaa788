"""Attention to neighbours (Longformer): a window around each token and, in encoders, global tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from search_spaces.kind import Dim, Kind, Rule
from supernet.blocks.attention import ATTENDS, EVEN_HEADS, OWN_HEADS, drawn_heads, heads_in_words
from supernet.call import Call
from supernet.layers.self_heads import SelfHeads, attend_on, real_tokens
from supernet.layers.windows import attend_from_first, banded, first_tokens
from supernet.layout import Layout


class LocalAttention(SelfHeads):
    """Every token attends to its `reach` neighbours on each side; in a decoder, to those before it.

    The first `n_global` tokens attend to all tokens, with their own maps, and all tokens attend to them.
    """

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_heads: int,
                 head_dim: int, reach: int, n_global: int) -> None:
        super().__init__(width=width, causal=causal, positions=positions, context=context, bias=bias, n_heads=n_heads,
                         head_dim=head_dim)
        self.reach, self.n_global = reach, n_global
        if n_global:
            self.far = nn.ModuleDict({name: nn.Linear(width, n_heads * head_dim, bias=bias) for name in "qkv"})

    def forward(self, x: Tensor, call: Call) -> Tensor:
        q, k, v = self.project(x, call.position)
        if call.state is not None:
            return self.merged(attend_on(q, k, v, call.state, call.mask, lambda behind: behind <= self.reach,
                                         self.reach))
        real, after = real_tokens(x, call.mask), 0 if self.causal else self.reach
        if not self.n_global:
            return self.merged(banded(q, k, v, real, self.reach, after, self.dropout))
        first = torch.arange(x.shape[1], device=x.device) < self.n_global
        count = self.n_global
        extra = (first_tokens(k, count), first_tokens(v, count), first_tokens(real.to(x.dtype), count, 1) > 0)
        near = banded(q, k, v, real & ~first, self.reach, after, self.dropout, extra)
        q, k, v = (self._heads(self.far[name](x), self.n_heads) for name in "qkv")
        far = attend_from_first(q, k, v, real, count, self.dropout)
        return self.merged(torch.where(first[:, None], far, near))

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """Keys and values of the tokens within reach."""
        return ((batch, self.n_heads, min(past, self.reach), self.head_dim),) * 2

    def layouts(self) -> dict[str, Layout]:
        own = super().layouts()
        return own | {f"far.{name}": layout for name, layout in own.items() if name[0] != "o"}


KIND = Kind(
    name="local_attention",
    role="mixer",
    module=LocalAttention,
    help="sliding-window attention, in encoders also with global tokens (Longformer)",
    paper="Beltagy et al. (2020), Longformer, arXiv:2004.05150",
    dims=(*OWN_HEADS, Dim("reach", int, "number of tokens attended to on each side (decoder: before)"),
          Dim("n_global", int, "number of leading tokens with global attention, to and from all others; 0 in a decoder",
              default=0,
              least=0)),
    facts=ATTENDS,
    rules=(EVEN_HEADS, Rule(("n_global", "causal"), lambda n_global, causal: not (causal and n_global),
                            "a decoder has no global tokens")),
    words=lambda dims, width: ("local attention", heads_in_words(dims), f"reach {dims['reach']}",
                               f"{dims['n_global']} global" if dims["n_global"] else ""),
    parts=drawn_heads,
)
