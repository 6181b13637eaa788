"""Multi-head self-attention, with grouped key/value heads if there are fewer of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from search_spaces.kind import ALL_HEADS, PER_HEAD, Dim, DrawnPart, Kind, Rule, Value
from supernet.call import Call
from supernet.declared import AttentionHeads
from supernet.layers.attention import MultiHead, RelativeBias

HEADS = (
    Dim("n_heads", int, "number of query heads"),
    Dim("head_dim", int, "channels per head", default="width/n_heads", expressions=(PER_HEAD,)),
    Dim("n_kv_heads", int, "number of key/value heads, clipped to n_heads", default="n_heads", at_most="n_heads",
        expressions=(ALL_HEADS,)),
)
"""The dims of all kinds with attention."""
HEAD_RULES = (
    Rule(("n_kv_heads", "n_heads"), lambda kv, heads: heads % kv == 0, "n_kv_heads must divide n_heads"),
)
OWN_HEADS = HEADS[:2]
"""The dims of attention in which every head has its own keys and values."""
EVEN_HEADS = Rule(("head_dim", "positions"), lambda head_dim, positions: positions != "rotary" or head_dim % 2 == 0,
                  "rotary positions need an even head_dim")
BIASES = Dim("biases", str, "linear maps with a bias: as in the rest of the model (model), all, only queries, keys and "
                            "values (qkv), or none", default="model", choices=("model", "all", "qkv", "none"),
                            optional=True)
QK_NORM = Dim("qk_norm", bool, "whether queries and keys are normalised", default=False, optional=True)
ROTARY_BASE = Dim("rotary_base", float, "base of rotary positions (rope_theta)", default=1e4, least=2,
                  optional=True)
ATTENDS = ("width", "causal", "positions", "context", "bias")
"""The facts of everything that attends."""


def heads_in_words(dims: Mapping[str, Any]) -> str:
    """How many heads of which size: `8 heads × 64, 2 key/value`."""
    n_heads, few = dims["n_heads"], dims.get("n_kv_heads", dims["n_heads"])
    size = f" × {dims['head_dim']}" if "head_dim" in dims else ""
    return f"{n_heads} head{'' if n_heads == 1 else 's'}{size}{f', {few} key/value' if few < n_heads else ''}"


def drawn_heads(dims: Mapping[str, Any], width: int) -> tuple[DrawnPart, ...]:
    """Heads side by side."""
    return (DrawnPart(dims["n_heads"] * dims["head_dim"], "attends", dims["n_heads"]),)


class SelfAttention(nn.Module):
    """Self-attention over all visible tokens."""

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, norm_eps: float,
                 n_heads: int, head_dim: int, n_kv_heads: int, biases: str, qk_norm: bool, rotary_base: float,
                 relative_buckets: int, relative_distance: int) -> None:
        super().__init__()
        relative = RelativeBias(n_heads=n_heads, buckets=relative_buckets, longest=relative_distance, context=context,
                                causal=causal) if relative_buckets else None
        self.attend = MultiHead(
            query_dim=width, memory_dim=width, out_dim=width, n_heads=n_heads, head_dim=head_dim,
            n_kv_heads=n_kv_heads, bias=bias if biases == "model" else biases != "none",
            out_bias=bias if biases == "model" else biases == "all", causal=causal,
            rotary_length=context if positions == "rotary" else 0, rotary_base=rotary_base, qk_norm=qk_norm,
            norm_eps=norm_eps, relative=relative)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        return self.attend(x, x, call.mask, call.record, call.state, call.position)

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        return self.attend.state_shapes(batch, past)

    def heads(self) -> AttentionHeads:
        return self.attend.heads().inside("attend")


def _canonical(dims: dict[str, Value], facts: Mapping[str, Value]) -> tuple[str, dict[str, Value]]:
    """Biases that the whole model has, and settings of positions that are not there, are not named."""
    if dims["biases"] == ("all" if facts["bias"] else "none"):
        dims = {**dims, "biases": "model"}
    if facts["positions"] != "rotary":
        dims = {**dims, "rotary_base": 1e4}
    if not dims["relative_buckets"]:
        dims = {**dims, "relative_distance": 128}
    return "attention", dims


KIND = Kind(
    name="attention",
    role="mixer",
    module=SelfAttention,
    help="multi-head self-attention",
    paper="Vaswani et al. (2017), Attention Is All You Need, arXiv:1706.03762",
    dims=(
        *HEADS,
        BIASES, QK_NORM, ROTARY_BASE,
        Dim("relative_buckets", int, "number of buckets of the relative position bias (T5); 0: none", default=0,
            least=0, optional=True),
        Dim("relative_distance", int, "distance from which all tokens share the last bucket", default=128,
            optional=True),
    ),
    canonical=_canonical,
    facts=(*ATTENDS, "norm_eps"),
    rules=(
        *HEAD_RULES,
        EVEN_HEADS,
        Rule(("relative_buckets",), lambda buckets: buckets == 0 or buckets >= 4 and buckets % 2 == 0,
             "relative_buckets must be 0, or an even number of at least 4"),
        Rule(("relative_distance", "relative_buckets"), lambda distance, buckets: distance > buckets // 2,
             "relative_distance must be more than half of relative_buckets"),
    ),
    words=lambda dims, width: ("attention", heads_in_words(dims)),
    parts=drawn_heads,
)
