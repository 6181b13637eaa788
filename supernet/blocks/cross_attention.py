"""Attention of a decoder to the encoder's output."""

from __future__ import annotations

from torch import Tensor, nn

from search_spaces.schema import Kind
from supernet.attention import MultiHead
from supernet.blocks.attention import HEAD_RULES, HEADS
from supernet.call import Call


class CrossAttention(nn.Module):
    """Every target token looks at every source token."""

    def __init__(self, *, width: int, bias: bool, n_heads: int, head_dim: int, n_kv_heads: int) -> None:
        super().__init__()
        self.attend = MultiHead(query_dim=width, memory_dim=width, out_dim=width, n_heads=n_heads, head_dim=head_dim,
                                n_kv_heads=n_kv_heads, bias=bias)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        assert call.memory is not None, "cross-attention needs the encoder's output"
        return self.attend(x, call.memory, call.memory_mask, call.record)


KIND = Kind(
    name="cross_attention",
    role="cross",
    module=CrossAttention,
    help="multi-head attention to the source",
    dims=HEADS,
    facts=("width", "bias"),
    rules=HEAD_RULES,
)
