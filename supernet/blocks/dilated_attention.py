"""Attention to every n-th neighbour: a window with gaps, which reaches farther at the same cost."""

from __future__ import annotations

from torch import Tensor

from search_spaces.kind import Dim, Kind
from supernet.blocks.attention import ATTENDS, EVEN_HEADS, OWN_HEADS, drawn_heads, heads_in_words
from supernet.call import Call
from supernet.layers.self_heads import SelfHeads, attend_on, real_tokens
from supernet.layers.windows import banded


class DilatedAttention(SelfHeads):
    """Every token attends to `reach` tokens on each side, `dilation` apart; in a decoder, to those before it."""

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_heads: int,
                 head_dim: int, reach: int, dilation: int) -> None:
        super().__init__(width=width, causal=causal, positions=positions, context=context, bias=bias, n_heads=n_heads,
                         head_dim=head_dim)
        self.reach, self.dilation = reach, dilation

    def forward(self, x: Tensor, call: Call) -> Tensor:
        q, k, v = self.project(x, call.position)
        if call.state is not None:
            return self.merged(attend_on(q, k, v, call.state, call.mask, self._sees, self._oldest))
        y = banded(q, k, v, real_tokens(x, call.mask), self.reach, 0 if self.causal else self.reach, self.dropout,
                   step=self.dilation)
        return self.merged(y)

    @property
    def _oldest(self) -> int:
        return self.reach * self.dilation

    def _sees(self, behind: Tensor) -> Tensor:
        return (behind % self.dilation == 0) & (behind <= self._oldest)

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """Keys and values of the tokens within reach."""
        return ((batch, self.n_heads, min(past, self._oldest), self.head_dim),) * 2


KIND = Kind(
    name="dilated_attention",
    role="mixer",
    module=DilatedAttention,
    help="dilated sliding-window attention (Longformer, Sparse Transformer)",
    paper="Beltagy et al. (2020), Longformer, arXiv:2004.05150",
    dims=(*OWN_HEADS, Dim("reach", int, "number of tokens attended to on each side (decoder: before)"),
          Dim("dilation", int, "distance between attended tokens", least=2)),
    facts=ATTENDS,
    rules=(EVEN_HEADS,),
    words=lambda dims, width: ("dilated attention", heads_in_words(dims), f"{dims['reach']} × {dims['dilation']}"),
    parts=drawn_heads,
)
