"""Grouped-query attention whose slices keep every query head with its key/value head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from search_spaces.kind import Dim, DrawnPart, Kind, Value
from supernet.blocks.attention import ATTENDS, BIASES, EVEN_HEADS, QK_NORM, ROTARY_BASE
from supernet.call import Call
from supernet.declared import AttentionHeads
from supernet.layers.attention import RESIDUAL_GAIN, MultiHead
from supernet.layout import Layout


class GroupedHeads(MultiHead):
    """Multi-head attention that is stored by key/value head, then by its queries."""

    def layouts(self) -> dict[str, Layout]:
        """A slice takes the first key/value heads, and the first queries of each."""
        layouts, kv = super().layouts(), self.n_kv_heads
        groups = (kv, self.n_heads // kv, self.head_dim)
        layouts["q.weight"] = Layout((*groups, self.q.in_features))
        layouts["o.weight"] = Layout((self.o.out_features, *groups), inputs=(1, 2, 3), gain=RESIDUAL_GAIN)
        return {**layouts, **({"q.bias": Layout(groups)} if self.q.bias is not None else {})}


class GroupedAttention(nn.Module):
    """Self-attention over all visible tokens, with several query heads for each key/value head."""

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, norm_eps: float,
                 n_kv_heads: int, queries: int, head_dim: int, biases: str, qk_norm: bool, rotary_base: float) -> None:
        super().__init__()
        self.attend = GroupedHeads(
            query_dim=width, memory_dim=width, out_dim=width, n_heads=n_kv_heads * queries, head_dim=head_dim,
            n_kv_heads=n_kv_heads, bias=bias if biases == "model" else biases != "none",
            out_bias=bias if biases == "model" else biases == "all", causal=causal,
            rotary_length=context if positions == "rotary" else 0, rotary_base=rotary_base, qk_norm=qk_norm,
            norm_eps=norm_eps)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        return self.attend(x, x, call.mask, call.record, call.state, call.position)

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        return self.attend.state_shapes(batch, past)

    def heads(self) -> AttentionHeads:
        return self.attend.heads().inside("attend", grouped=True)


def _canonical(dims: dict[str, Value], facts: Mapping[str, Value]) -> tuple[str, dict[str, Value]]:
    """Biases that the whole model has, and the base of positions that are not there, are not named.

    One query per key/value head is what `attention` computes, too, but its weights lie elsewhere in the store.
    """
    if dims["biases"] == ("all" if facts["bias"] else "none"):
        dims = {**dims, "biases": "model"}
    if facts["positions"] != "rotary":
        dims = {**dims, "rotary_base": 1e4}
    return "grouped_attention", dims


def _in_words(dims: Mapping[str, Any], width: int) -> tuple[str, str]:
    kv = dims["n_kv_heads"]
    return "grouped attention", (f"{kv} key/value head{'' if kv == 1 else 's'} × {dims['head_dim']}, "
                                 f"{dims['queries']} quer{'y' if dims['queries'] == 1 else 'ies'} each")


def _drawn(dims: Mapping[str, Any], width: int) -> tuple[DrawnPart, ...]:
    n_heads = dims["n_kv_heads"] * dims["queries"]
    return (DrawnPart(n_heads * dims["head_dim"], "attends", n_heads),)


KIND = Kind(
    name="grouped_attention",
    role="mixer",
    module=GroupedAttention,
    help="attention with groups of query heads that share a key/value head",
    paper="Ainslie et al. (2023), GQA, arXiv:2305.13245",
    dims=(
        Dim("n_kv_heads", int, "number of key/value heads"),
        Dim("queries", int, "number of query heads per key/value head"),
        Dim("head_dim", int, "channels per head"),
        BIASES, QK_NORM, ROTARY_BASE,
    ),
    canonical=_canonical,
    facts=(*ATTENDS, "norm_eps"),
    rules=(EVEN_HEADS,),
    words=_in_words,
    parts=_drawn,
)
