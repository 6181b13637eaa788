"""Multi-head self-attention, with grouped key/value heads where fewer of them are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from search_spaces.kind import ALL_HEADS, PER_HEAD, Dim, DrawnPart, Kind, Rule
from supernet.call import Call
from supernet.declared import AttentionHeads
from supernet.layers.attention import MultiHead

HEADS = (
    Dim("n_heads", int, "query heads"),
    Dim("head_dim", int, "channels of a head", default="width/n_heads", expressions=(PER_HEAD,)),
    Dim("n_kv_heads", int, "key/value heads, clipped to n_heads", default="n_heads", at_most="n_heads",
        expressions=(ALL_HEADS,)),
)
"""The dims of everything that attends."""
HEAD_RULES = (
    Rule(("n_kv_heads", "n_heads"), lambda kv, heads: heads % kv == 0, "n_kv_heads must divide n_heads"),
)


def heads_in_words(dims: Mapping[str, Any]) -> str:
    """How many heads of which size: `8 heads × 64, 2 key/value`."""
    n_heads, few = dims["n_heads"], dims.get("n_kv_heads", dims["n_heads"])
    size = f" × {dims['head_dim']}" if "head_dim" in dims else ""
    return f"{n_heads} head{'' if n_heads == 1 else 's'}{size}{f', {few} key/value' if few < n_heads else ''}"


class SelfAttention(nn.Module):
    """Every token looks at every token it may see."""

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_heads: int,
                 head_dim: int, n_kv_heads: int) -> None:
        super().__init__()
        self.attend = MultiHead(
            query_dim=width, memory_dim=width, out_dim=width, n_heads=n_heads, head_dim=head_dim,
            n_kv_heads=n_kv_heads, bias=bias, causal=causal, rotary_length=context if positions == "rotary" else 0,
        )

    def forward(self, x: Tensor, call: Call) -> Tensor:
        return self.attend(x, x, call.mask, call.record, call.state, call.position)

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        return self.attend.state_shapes(batch, past)

    def heads(self) -> AttentionHeads:
        return self.attend.heads().inside("attend")


KIND = Kind(
    name="attention",
    role="mixer",
    module=SelfAttention,
    help="multi-head self-attention",
    dims=HEADS,
    facts=("width", "causal", "positions", "context", "bias"),
    rules=(
        *HEAD_RULES,
        Rule(("head_dim", "positions"), lambda head_dim, positions: positions != "rotary" or head_dim % 2 == 0,
             "rotary positions need an even head_dim"),
    ),
    words=lambda dims, width: ("attention", heads_in_words(dims)),
    parts=lambda dims, width: (DrawnPart(dims["n_heads"] * dims["head_dim"], "attends", dims["n_heads"]),),
)
