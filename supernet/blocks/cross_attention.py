"""Attention of a decoder to the encoder's output."""

from __future__ import annotations

from torch import Tensor, nn

from search_spaces.kind import DrawnPart, Kind
from supernet.blocks.attention import HEAD_RULES, HEADS, heads_in_words
from supernet.call import Call
from supernet.declared import AttentionHeads
from supernet.layers.attention import MultiHead


class CrossAttention(nn.Module):
    """Attention from target tokens to all source tokens."""

    def __init__(self, *, width: int, bias: bool, n_heads: int, head_dim: int, n_kv_heads: int) -> None:
        super().__init__()
        self.attend = MultiHead(query_dim=width, memory_dim=width, out_dim=width, n_heads=n_heads, head_dim=head_dim,
                                n_kv_heads=n_kv_heads, bias=bias)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        return self.attend(x, call.memory, call.memory_mask, call.record, call.state)

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """`past` is the length of the source, 0 before it was read."""
        return self.attend.state_shapes(batch, past)

    def heads(self) -> AttentionHeads:
        return self.attend.heads().inside("attend")


KIND = Kind(
    name="cross_attention",
    role="cross",
    module=CrossAttention,
    help="multi-head attention to the source",
    paper="Vaswani et al. (2017), Attention Is All You Need, arXiv:1706.03762",
    dims=HEADS,
    facts=("width", "bias"),
    rules=HEAD_RULES,
    words=lambda dims, width: ("cross-attention", heads_in_words(dims)),
    parts=lambda dims, width: (DrawnPart(dims["n_heads"] * dims["head_dim"], heads=dims["n_heads"]),),
)
