"""Product-key memory: a feed-forward with very many values, of which a token reads a few."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from search_spaces.kind import Dim, DrawnPart, Kind, Rule
from supernet.call import Call
from supernet.declared import Product
from supernet.layers.attention import RESIDUAL_GAIN
from supernet.layout import Layout


class ProductKeyMemory(nn.Module):
    """The softmax-weighted sum of the `top_k` of `keys`^2 values whose keys have the largest product with the query.

    A key is a pair of half keys, so the best pairs are among the best of either half: 2 `keys` products find them.
    """

    def __init__(self, *, width: int, bias: bool, keys: int, memory_heads: int, top_k: int, key_dim: int) -> None:
        super().__init__()
        self.shape, self.top_k, half = (memory_heads, 2, key_dim // 2), top_k, key_dim // 2
        self.queries = nn.Linear(width, memory_heads * key_dim, bias=bias)
        self.keys = nn.Parameter(torch.empty(memory_heads, 2, half, keys))
        self.values = nn.Embedding(keys * keys, width, _weight=torch.empty(keys * keys, width))
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        queries = self.queries(x).unflatten(-1, self.shape)
        halves = torch.matmul(queries[..., None, :], self.keys)[..., 0, :]  # (batch, n, heads, 2, keys)
        best, ids = halves.topk(self.top_k)
        sums = (best[..., 0, :, None] + best[..., 1, None, :]).flatten(-2)
        scores, pairs = sums.topk(self.top_k)
        first = ids[..., 0, :].gather(-1, pairs // self.top_k)
        second = ids[..., 1, :].gather(-1, pairs % self.top_k)
        rows = self.values((first * self.keys.shape[-1] + second).flatten(-2))
        weights = scores.float().softmax(-1).to(x.dtype).flatten(-2)
        return torch.matmul(self.drop(weights)[..., None, :], rows)[..., 0, :]

    def matrices(self) -> dict[str, Product]:
        """Queries and keys stay precise: rounded ones would read other values."""
        return {"keys": Product.NONE, "queries.weight": Product.NONE}

    def layouts(self) -> dict[str, Layout]:
        """A value has the place of its pair of keys."""
        n = self.keys.shape[-1]
        return {"queries.weight": Layout((*self.shape, self.queries.in_features)), "queries.bias": Layout(self.shape),
                "keys": Layout(inputs=(2,)),
                "values.weight": Layout((n, n, self.values.embedding_dim), init=RESIDUAL_GAIN)}


KIND = Kind(
    name="pkm",
    role="ffn",
    module=ProductKeyMemory,
    help="product-key memory: each token reads a few of very many values",
    paper="Lample et al. (2019), Large Memory Layers with Product Keys, arXiv:1907.05242",
    dims=(
        Dim("keys", int, "number of half keys; the memory has keys² values", least=2, most=10_000),
        Dim("memory_heads", int, "queries per token; their results are added"),
        Dim("top_k", int, "values per query, clipped to keys", at_most="keys"),
        Dim("key_dim", int, "channels of a query; each half is compared with the half keys", least=2),
    ),
    facts=("width", "bias"),
    rules=(Rule(("key_dim",), lambda key_dim: key_dim % 2 == 0, "key_dim must be even: a key has two halves"),),
    words=lambda dims, width: ("memory", f"{dims['keys']}² values", f"{dims['memory_heads']} × {dims['top_k']} read"),
    parts=lambda dims, width: (DrawnPart(dims["memory_heads"] * dims["key_dim"]),),
)
