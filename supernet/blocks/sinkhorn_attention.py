"""Sinkhorn attention: every block of tokens attends to itself and to a block that is matched by learned sorting."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import Dim, Kind
from supernet.blocks.attention import ATTENDS, EVEN_HEADS, OWN_HEADS, drawn_heads, heads_in_words
from supernet.call import Call
from supernet.layers.self_heads import SelfHeads, real_tokens
from supernet.layers.windows import chunked, count_chunks, joined
from supernet.layout import Layout

NEVER = -1e4


class SinkhornAttention(SelfHeads):
    """Scores between blocks, from the mean of each block, become nearly a permutation by normalising rows and columns
    alternately; the keys and values it sorts to a block are attended to beside the block's own."""

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_heads: int,
                 head_dim: int, block: int, iterations: int) -> None:
        super().__init__(width=width, causal=causal, positions=positions, context=context, bias=bias, n_heads=n_heads,
                         head_dim=head_dim)
        self.block, self.iterations, self.most = block, iterations, -(-context // block)
        self.sort = nn.Linear(width, n_heads * self.most, bias=bias)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        real = real_tokens(x, call.mask)[:, None, :, None].to(x.dtype)
        there = chunked(real, self.block)  # (batch, 1, blocks, size, 1)
        q, k, v = self.project(x)
        q, k, v = chunked(q, self.block), chunked(k * real, self.block), chunked(v * real, self.block)
        order = self.permutation(x, there)  # (batch, heads, blocks, blocks)
        everywhere = there.expand(-1, self.n_heads, -1, -1, -1)
        keys, values, shares = (self._sorted(order, tensor) for tensor in (k, v, everywhere))
        size = torch.arange(self.block, device=x.device)
        own = torch.where(there.transpose(-2, -1) > 0, 0.0, NEVER).to(x.dtype)
        own = own.masked_fill(size[:, None] == size, 0.0).expand(-1, self.n_heads, -1, -1, -1)
        other = shares.transpose(-2, -1).clamp(min=1e-9).log().expand_as(own)
        scores = q @ torch.cat([k, keys], dim=3).transpose(-2, -1) * self.head_dim**-0.5
        weights = (scores + torch.cat([own, other], dim=-1)).softmax(dim=-1)
        return self.merged(joined(self.drop(weights) @ torch.cat([v, values], dim=3), x.shape[1]))

    def permutation(self, x: Tensor, there: Tensor) -> Tensor:
        """(batch, heads, blocks, blocks): the share of each block that is sorted to a block; rows sum to 1."""
        count = count_chunks(x.shape[1], self.block)
        real = there[:, 0]  # (batch, blocks, size, 1)
        tokens = chunked(x[:, None], self.block)[:, 0]
        means = (tokens * real).sum(dim=2) / real.sum(dim=2).clamp(min=1)
        scores = torch.unflatten(self.sort(means), -1, (self.n_heads, self.most))
        scores = F.pad(scores, (0, 1), value=NEVER).index_select(3, torch.arange(count, device=x.device))
        full = real.amax(dim=(2, 3)) > 0
        both = (full[:, :, None] & full[:, None, :])[:, None]
        logs = scores.transpose(1, 2)
        for _ in range(self.iterations):
            for axis in (-2, -1):
                logs = logs.masked_fill(~both, NEVER)
                logs = logs - logs.logsumexp(dim=axis, keepdim=True)
        return logs.exp()

    def _sorted(self, order: Tensor, x: Tensor) -> Tensor:
        """Blocks (batch, heads, blocks, size, dim), each a mean of all by its row of the order."""
        return torch.unflatten(order @ x.flatten(3), 3, (self.block, -1))

    def layouts(self) -> dict[str, Layout]:
        own = {"sort.weight": Layout((self.n_heads, self.most, self.sort.in_features)),
               "sort.bias": Layout((self.n_heads, self.most))}
        return super().layouts() | own


KIND = Kind(
    name="sinkhorn_attention",
    role="mixer",
    module=SinkhornAttention,
    help="attention to a token's own block and to one matched by learned sorting (Sparse Sinkhorn attention)",
    paper="Tay et al. (2020), Sparse Sinkhorn Attention, arXiv:2002.11296",
    dims=(*OWN_HEADS, Dim("block", int, "tokens per block"),
          Dim("iterations", int, "number of normalisations of rows and columns", default=4)),
    facts=ATTENDS,
    rules=(EVEN_HEADS,),
    causal=False,
    words=lambda dims, width: ("Sinkhorn attention", heads_in_words(dims), f"blocks of {dims['block']}"),
    parts=drawn_heads,
)
