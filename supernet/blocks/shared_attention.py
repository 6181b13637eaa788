"""Attention whose layers share keys and values (cross-layer attention): the first layer of a group computes them."""

from __future__ import annotations

from torch import Tensor

from search_spaces.kind import Dim, Kind
from supernet.blocks.attention import ATTENDS, EVEN_HEADS, HEAD_RULES, HEADS, drawn_heads, heads_in_words
from supernet.call import Call
from supernet.layers.attention import MultiHead


class SharedAttention(MultiHead):
    """Self-attention; only the first layer of a group has maps of keys and values, and a state for decoding."""

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, first: bool, n_heads: int,
                 head_dim: int, n_kv_heads: int, group: int) -> None:
        super().__init__(query_dim=width, memory_dim=width, out_dim=width, n_heads=n_heads, head_dim=head_dim,
                         n_kv_heads=n_kv_heads, bias=bias, causal=causal,
                         rotary_length=context if positions == "rotary" else 0)
        self.first, self.name = first, shared_name(group, n_kv_heads, head_dim)
        if not first:
            del self.k, self.v

    def forward(self, x: Tensor, call: Call) -> Tensor:  # type: ignore[override]
        q = self.queries(x, call.position)
        k, v = self._computed(x, call) if self.first else (call.shared or {})[self.name]
        return self.attend(q, k, v, call.mask, call.record)

    def _computed(self, x: Tensor, call: Call) -> tuple[Tensor, Tensor]:
        """Keys and values of all tokens so far."""
        if call.state is None:
            k, v = self.keys_values(x, call.position)
        else:
            k, v = call.state.tensors = self._continued(x, call.state.tensors[0].shape[2], call.position,
                                                        *call.state.tensors)
        if call.shared is not None:
            call.shared[self.name] = (k, v)
        return k, v

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        return super().state_shapes(batch, past) if self.first else ()

    def shared_shapes(self, batch: int, length: int) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Keys and values of `length` tokens, in a layer that reuses them."""
        return {} if self.first else {self.name: super().state_shapes(batch, length)}


def shared_name(group: int, n_kv_heads: int, head_dim: int) -> str:
    """What layers share: those of a group whose keys and values have the same shape."""
    return f"keys and values {group}: {n_kv_heads} x {head_dim}"


KIND = Kind(
    name="shared_attention",
    role="mixer",
    module=SharedAttention,
    help="attention that reuses the keys and values of the first layer of its group (cross-layer attention)",
    paper="Brandon et al. (2024), Reducing Transformer Key-Value Cache Size with Cross-Layer Attention, "
          "arXiv:2405.12981",
    dims=(*HEADS, Dim("group", int, "layers of a stack with the same group and the same n_kv_heads and head_dim share "
                                    "keys and values", default=0, least=0)),
    facts=(*ATTENDS, "first"),
    rules=(*HEAD_RULES, EVEN_HEADS),
    shares=lambda dims: shared_name(int(dims["group"]), int(dims["n_kv_heads"]), int(dims["head_dim"])),
    words=lambda dims, width: ("shared attention", heads_in_words(dims), f"group {dims['group']}"),
    parts=drawn_heads,
)
