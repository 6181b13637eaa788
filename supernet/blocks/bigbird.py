"""Block-sparse attention (BigBird): neighbouring blocks, the first blocks, and random ones."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from search_spaces.kind import Dim, Kind
from supernet.blocks.attention import ATTENDS, EVEN_HEADS, OWN_HEADS, drawn_heads, heads_in_words
from supernet.call import Call
from supernet.layers.self_heads import SelfHeads, real_tokens
from supernet.layers.windows import attend_chunks, attend_from_first, chunked, count_chunks, joined
from supernet.layout import Layout


class BigBird(SelfHeads):
    """Every block of tokens attends to itself, its neighbours, the first `n_global` blocks and `n_random` others.

    The first blocks attend to all tokens. The random blocks are drawn once and stored, as numbers between 0 and 1
    (by the normal distribution function) that stand for a place in a sequence of any length.
    """

    drawn: Tensor

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_heads: int,
                 head_dim: int, block: int, n_global: int, n_random: int) -> None:
        super().__init__(width=width, causal=causal, positions=positions, context=context, bias=bias, n_heads=n_heads,
                         head_dim=head_dim)
        self.block, self.n_global, self.n_random = block, n_global, n_random
        if n_random:
            self.register_buffer("drawn", torch.zeros(context // block + 2, n_random))

    def forward(self, x: Tensor, call: Call) -> Tensor:
        n, size = x.shape[1], self.block
        (q, k, v), real = self.project(x), real_tokens(x, call.mask)
        seen, valid = self._blocks(n, x.device)
        there = chunked(real[:, None, :, None].to(x.dtype), size)[:, 0, seen, :, 0] > 0  # (batch, count, seen, size)
        allowed = (there & valid[..., None]).flatten(2)[:, None, :, None]
        itself = torch.arange(3 * size, device=x.device)[None] == torch.arange(size, device=x.device)[:, None] + size
        allowed = allowed | F.pad(itself, (0, (seen.shape[1] - 3) * size))
        keys, values = (chunked(tensor, size)[:, :, seen].flatten(3, 4) for tensor in (k, v))
        allowed = allowed.expand(-1, self.n_heads, -1, -1, -1)
        y = joined(attend_chunks(chunked(q, size), keys, values, allowed, self.dropout), n)
        if self.n_global:
            first = torch.arange(n, device=x.device)[:, None] < self.n_global * size
            y = torch.where(first, attend_from_first(q, k, v, real, self.n_global * size, self.dropout), y)
        return self.merged(y)

    def _blocks(self, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """(count, seen) which blocks each block attends to, and whether that one exists and was not listed before."""
        count, full = count_chunks(n, self.block), (n + self.block - 1) // self.block
        own = torch.arange(count, device=device)[:, None]
        seen = [own - 1, own, own + 1]
        if self.n_global:
            seen.append(torch.arange(self.n_global, device=device).expand(count, -1))
        if self.n_random:
            share = (1 + torch.erf(self.drawn[:count] / math.sqrt(2))) / 2
            seen.append((share * full).long().clamp(max=full - 1))
        listed = torch.cat(seen, dim=1)
        again = (listed[:, :, None] == listed[:, None, :]).tril(-1).any(dim=-1)
        return listed.clamp(min=0, max=count - 1), (listed >= 0) & (listed < count) & ~again

    def layouts(self) -> dict[str, Layout]:
        return super().layouts() | {"drawn": Layout(init=1.0)}


KIND = Kind(
    name="bigbird",
    role="mixer",
    module=BigBird,
    help="attention to neighbouring, first and random blocks (BigBird)",
    paper="Zaheer et al. (2020), Big Bird, arXiv:2007.14062",
    dims=(*OWN_HEADS, Dim("block", int, "tokens per block"),
          Dim("n_global", int, "number of leading blocks with global attention, to and from all others", default=1,
              least=0),
          Dim("n_random", int, "number of random blocks that each block attends to", default=1, least=0)),
    facts=ATTENDS,
    rules=(EVEN_HEADS,),
    causal=False,
    words=lambda dims, width: ("block-sparse attention", heads_in_words(dims), f"blocks of {dims['block']}",
                               f"{dims['n_global']} global, {dims['n_random']} random"),
    parts=drawn_heads,
)
