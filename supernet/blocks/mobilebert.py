"""A whole MobileBERT layer: attention and stacked feed-forward networks in one bottleneck."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from search_spaces.kind import Dim, DrawnPart, Kind, Rule
from supernet.blocks.stacked_ffn import PAPER, STACK_DIMS, make_stack
from supernet.call import Call
from supernet.layers.attention import RESIDUAL_GAIN, MultiHead
from supernet.layers.bottleneck import Narrowed
from supernet.layers.norms import make_norm
from supernet.layout import Layout


class MobileBertLayer(nn.Module):
    """Narrow, attend, stacked feed-forward networks, widen: everything between the residual of the whole layer.

    Args:
        source: input of queries, keys and values: `input`, the layer's input (the paper's table);
            `shared`, a second bottleneck for queries and keys and the input for values (the released models);
            `bottleneck`, the narrowed input (MobileBERT-tiny).
    """

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, norm: str, bias: bool, n_heads: int,
                 source: str, bottleneck: int, inner: int, stack: int, activation: str) -> None:
        super().__init__()
        self.source = source
        self.enter = Narrowed(width, bottleneck, norm, bias)
        self.keys = Narrowed(width, bottleneck, norm, bias) if source == "shared" else None
        query_dim = width if source == "input" else bottleneck
        self.attend = SplitMultiHead(
            value_dim=bottleneck if source == "bottleneck" else width, query_dim=query_dim, memory_dim=query_dim,
            out_dim=bottleneck, n_heads=n_heads, head_dim=bottleneck // n_heads, n_kv_heads=n_heads, bias=bias,
            causal=causal, rotary_length=context if positions == "rotary" else 0)
        self.norm = make_norm(norm, bottleneck)
        self.stack = make_stack(bottleneck, inner, stack, activation, norm, bias)
        self.leave = nn.Linear(bottleneck, width, bias=bias)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        narrow = self.enter(x)
        keys = {"input": x, "bottleneck": narrow}.get(self.source) if self.keys is None else self.keys(x)
        values = narrow if self.source == "bottleneck" else x
        attended = self.attend(keys, torch.cat([keys, values], dim=-1), call.mask, call.record, call.state,
                               call.position)
        return self.leave(self.stack(self.norm(narrow + attended), call))

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        return self.attend.state_shapes(batch, past)

    def layouts(self) -> dict[str, Layout]:
        """Maps of different inputs share no weights."""
        layouts = {f"attend.{name}.weight": Layout(layout.shape, bank=self.source)
                 for name, layout in ((name, self.attend.layouts()[f"{name}.weight"]) for name in ("q", "k", "v"))}
        return {**layouts, "leave.weight": Layout(gain=RESIDUAL_GAIN)}


class SplitMultiHead(MultiHead):
    """Attention whose keys and values are computed from different inputs, which are concatenated."""

    def __init__(self, *, value_dim: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.v = nn.Linear(value_dim, self.v.out_features, bias=self.v.bias is not None)

    def _inputs(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        return memory[..., : self.k.in_features], memory[..., self.k.in_features :]


KIND = Kind(
    name="mobilebert",
    role="mixer",
    module=MobileBertLayer,
    help="a whole layer in a bottleneck: attention and stacked feed-forward networks; use it with no_ffn",
    paper=PAPER,
    dims=(
        Dim("n_heads", int, "number of heads, which split the bottleneck"),
        Dim("source", str, "what queries, keys and values are computed from", default="shared",
            choices=("input", "shared", "bottleneck")),
        *STACK_DIMS,
    ),
    facts=("width", "causal", "positions", "context", "norm", "bias"),
    rules=(
        Rule(("bottleneck", "n_heads"), lambda narrow, heads: narrow % heads == 0,
             "n_heads must divide the bottleneck"),
        Rule(("bottleneck", "n_heads", "positions"), lambda narrow, heads, positions: positions != "rotary"
             or narrow // heads % 2 == 0, "rotary positions need heads with an even number of channels"),
    ),
    words=lambda dims, width: ("MobileBERT layer", f"{dims['n_heads']} heads at {dims['bottleneck']}",
                               f"{dims['stack']} × {dims['inner']}"),
    parts=lambda dims, width: (DrawnPart(dims["bottleneck"], "attends", dims["n_heads"]),
                               *(DrawnPart(dims["bottleneck"]),) * min(dims["stack"], 4)),
)
