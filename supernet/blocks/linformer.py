"""Linformer: learned maps over the tokens shorten keys and values, so attention takes linear time."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import Dim, Kind
from supernet.blocks.attention import ATTENDS, EVEN_HEADS, OWN_HEADS, drawn_heads, heads_in_words
from supernet.call import Call
from supernet.declared import Product
from supernet.layers.attention import attend
from supernet.layers.self_heads import SelfHeads


class Linformer(SelfHeads):
    """Every token attends to `rank` weighted sums of all keys and values; one map for both where `shared`."""

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_heads: int,
                 head_dim: int, rank: int, shared: bool) -> None:
        super().__init__(width=width, causal=causal, positions=positions, context=context, bias=bias, n_heads=n_heads,
                         head_dim=head_dim)
        self.shorten_k = nn.Parameter(torch.empty(rank, context))
        self.shorten_v = None if shared else nn.Parameter(torch.empty(rank, context))

    def forward(self, x: Tensor, call: Call) -> Tensor:
        q, k, v = self.project(x)
        by_v = self.shorten_k if self.shorten_v is None else self.shorten_v
        return self.merged(attend(q, self._short(k, self.shorten_k, call.mask), self._short(v, by_v, call.mask),
                                  dropout=self.dropout))

    def _short(self, x: Tensor, weights: Tensor, mask: Tensor | None) -> Tensor:
        """(batch, heads, n, head_dim) -> (batch, heads, rank, head_dim)."""
        if mask is not None:
            x = x.masked_fill(~mask[:, None, :, None], 0.0)
        weights = weights.index_select(1, torch.arange(x.shape[2], device=x.device))
        return F.linear(x.transpose(-2, -1), weights).transpose(-2, -1)

    def matrices(self) -> dict[str, Product]:
        return {"shorten_k": Product.LINEAR, "shorten_v": Product.LINEAR}


KIND = Kind(
    name="linformer",
    role="mixer",
    module=Linformer,
    help="attention to learned low-rank projections of keys and values (Linformer)",
    paper="Wang et al. (2020), Linformer, arXiv:2006.04768",
    dims=(*OWN_HEADS, Dim("rank", int, "number of projected keys and values"),
          Dim("shared", bool, "whether keys and values share the projection", default=False)),
    facts=ATTENDS,
    rules=(EVEN_HEADS,),
    causal=False,
    words=lambda dims, width: ("Linformer", heads_in_words(dims), f"rank {dims['rank']}"),
    parts=drawn_heads,
)
