"""Fixed attention patterns: up to eight heads that attend to fixed positions, and learned heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import Dim, DrawnPart, Kind, Rule
from supernet.blocks.attention import ATTENDS
from supernet.call import Call
from supernet.layers.attention import RESIDUAL_GAIN, MultiHead
from supernet.layers.self_heads import real_tokens
from supernet.layout import Layout


class FixedPatterns(nn.Module):
    """Heads 1 to 8 give: the token, the one before, the one after; means of all tokens at least two before and after
    with weights (j + 1)^3 and (n - j)^3; means of all tokens with either weights; the last token. A token that has none
    of those gives itself. `n_learned` further heads attend. Sums run along the sequence, in linear time.
    """

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_fixed: int,
                 n_learned: int, head_dim: int) -> None:
        super().__init__()
        self.n_fixed, self.head_dim = n_fixed, head_dim
        self.v = nn.Linear(width, n_fixed * head_dim, bias=bias)
        self.o = nn.Linear(n_fixed * head_dim, width, bias=bias and not n_learned)
        self.learned = MultiHead(query_dim=width, memory_dim=width, out_dim=width, n_heads=n_learned,
                                 head_dim=head_dim, n_kv_heads=n_learned, bias=bias, causal=causal,
                                 rotary_length=context if positions == "rotary" else 0) if n_learned else None

    def forward(self, x: Tensor, call: Call) -> Tensor:
        real = real_tokens(x, call.mask)[..., None].to(x.dtype)
        heads = (self.v(x) * real).split(self.head_dim, dim=-1)
        y: Tensor = self.o(torch.cat([self._pattern(i, v, real) for i, v in enumerate(heads)], dim=-1))
        return y if self.learned is None else y + self.learned(x, x, call.mask, call.record)

    def _pattern(self, which: int, v: Tensor, real: Tensor) -> Tensor:
        """What the head of a pattern gives, of values (batch, n, head_dim) that are 0 where tokens are not real."""
        if which == 0:
            return v
        if which in (1, 2):
            sums, total = (_moved(tensor, -1 if which == 1 else 1) for tensor in (v, real))
        else:
            sums, total = (self._weighted(which, tensor, real) for tensor in (v, real))
        return torch.where(total > 0, sums / total.clamp(min=torch.finfo(v.dtype).tiny), v)

    def _weighted(self, which: int, v: Tensor, real: Tensor) -> Tensor:
        n = real.sum(dim=1, keepdim=True).clamp(min=1)
        place = torch.arange(v.shape[1], device=v.device, dtype=v.dtype)[:, None]
        if which == 7:
            return (v * (place + 1 == n)).sum(dim=1, keepdim=True).expand_as(v)
        towards_end = which in (3, 5)
        v = v * (((place + 1) if towards_end else (n - place)) / n) ** 3  # real tokens come first
        if which >= 5:
            return v.sum(dim=1, keepdim=True).expand_as(v)
        return _moved(v.cumsum(dim=1), -2) if which == 3 else _moved(v.flip(1).cumsum(dim=1).flip(1), 2)

    def layouts(self) -> dict[str, Layout]:
        heads = (self.n_fixed, self.head_dim)
        return {"v.weight": Layout((*heads, self.v.in_features)), "v.bias": Layout(heads),
                "o.weight": Layout((self.o.out_features, *heads), inputs=(1, 2), gain=RESIDUAL_GAIN)}


def _moved(x: Tensor, by: int) -> Tensor:
    """x (batch, n, dim) `by` tokens further on at each token; zeros from outside."""
    places = torch.arange(x.shape[1], device=x.device) + max(by, 0)
    return F.pad(x, (0, 0, max(-by, 0), max(by, 0))).index_select(1, places)


def _parts(dims: Mapping[str, Any], width: int) -> tuple[DrawnPart, ...]:
    fixed = DrawnPart(dims["n_fixed"] * dims["head_dim"], "", dims["n_fixed"])
    learned = DrawnPart(dims["n_learned"] * dims["head_dim"], "attends", dims["n_learned"])
    return (fixed, learned) if dims["n_learned"] else (fixed,)


KIND = Kind(
    name="fixed_patterns",
    role="mixer",
    module=FixedPatterns,
    help="attention heads with fixed patterns, and learned heads",
    paper="Raganato et al. (2020), Fixed Encoder Self-Attention Patterns, arXiv:2002.10260",
    dims=(
        Dim("n_fixed", int, "number of heads with fixed patterns: the first n_fixed of eight", default=7, most=8),
        Dim("n_learned", int, "number of learned heads", default=1, least=0),
        Dim("head_dim", int, "channels per head"),
    ),
    facts=ATTENDS,
    rules=(Rule(("head_dim", "positions", "n_learned"),
                lambda head_dim, positions, learned: positions != "rotary" or not learned or head_dim % 2 == 0,
                "rotary positions need an even head_dim"),),
    causal=False,
    words=lambda dims, width: ("fixed patterns", f"{dims['n_fixed']} fixed and {dims['n_learned']} learned heads"),
    parts=_parts,
)
