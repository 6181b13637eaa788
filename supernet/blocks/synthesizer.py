"""Synthesizer: attention scores that are not products of queries and keys, alone or mixed with such products."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import Dim, DrawnPart, Kind, Rule, Value
from supernet.blocks.attention import ATTENDS
from supernet.call import Call
from supernet.declared import Product
from supernet.layers.attention import past_mask
from supernet.layers.self_heads import SelfHeads, appended
from supernet.layout import Layout

SCORES = ("dense", "random", "fixed", "factorised_dense", "factorised_random", "random_dense")
BOTH = ("random", "dense")
"""The scores that `random_dense` mixes."""


class Synthesizer(SelfHeads):
    """softmax(B) v, where the scores B are

    - `dense`: W2 relu(W1 x_i), one score for each position of the context;
    - `random`: a learned table; `fixed`: a random one;
    - `factorised_dense`: products of two short vectors of scores;
    - `factorised_random`: a learned table of rank `rank`;
    - `random_dense`: a learned mean of `random` and `dense`.

    With `mix`, the scores of queries and keys are one more term of the mean.
    """

    table: Tensor
    rows: Tensor
    columns: Tensor
    hidden: Tensor
    out: Tensor
    coarse: Tensor
    fine: Tensor

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_heads: int,
                 scores: str, rank: int, mix: bool) -> None:
        super().__init__(width=width, causal=causal, positions=positions if mix else "none", context=context, bias=bias,
                         n_heads=n_heads, head_dim=width // n_heads)
        self.sources = BOTH if scores == "random_dense" else (scores,)
        self.mix, self.context = mix, context
        if len(self.sources) + mix > 1:
            self.mixture = nn.Parameter(torch.zeros(len(self.sources) + mix))
        if not mix:
            del self.q, self.k
        for name, shape in _shapes(scores, n_heads, width // n_heads, context, rank).items():
            if scores == "fixed":
                self.register_buffer(name, torch.empty(shape))
            else:
                self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    def forward(self, x: Tensor, call: Call) -> Tensor:
        kept: tuple[Tensor, ...] = (self.keys_values(x, call.position) if self.mix else
                                    (self._heads(self.v(x), self.n_heads),))
        if call.state is not None:
            kept, call.state.tensors = appended(call.state.tensors, kept)
        n, m = x.shape[1], kept[-1].shape[2]
        terms = [self._synthetic(source, x, call, m) for source in self.sources]
        if self.mix:
            terms.append(self.queries(x, call.position) @ kept[0].transpose(-2, -1) * self.head_dim**-0.5)
        scores = terms[0]
        if len(terms) > 1:
            shares = self.mixture.softmax(dim=0)
            scores = sum((share * term for share, term in zip(shares[1:], terms[1:])), start=shares[0] * scores)
        allowed = None if call.mask is None else call.mask[:, None, None, :]
        if self.causal:
            past = past_mask(n, m, x.device)
            allowed = past if allowed is None else allowed & past
        if allowed is not None:
            scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        if call.record is not None:
            call.record.attention.append(weights.expand(len(x), -1, -1, -1))
        return self.merged(self.drop(weights) @ kept[-1])

    def _synthetic(self, source: str, x: Tensor, call: Call, m: int) -> Tensor:
        """(batch or 1, heads, n, m) scores of the tokens x for m keys."""
        if not isinstance(call.position, Tensor):  # keys are at the first positions
            return self._scores(source, x, call.position, torch.arange(m, device=x.device))
        assert call.mask is not None
        every = self._scores(source, x, call.position, torch.arange(self.context, device=x.device))
        places = (call.mask.long().cumsum(dim=1) - 1).clamp(min=0)[:, None, None, :]
        return every.gather(3, places.expand(-1, every.shape[1], every.shape[2], -1))

    def _scores(self, source: str, x: Tensor, position: int | Tensor, places: Tensor) -> Tensor:
        """(batch or 1, heads, n, places) scores of the tokens x for keys at some positions."""
        n = x.shape[1]
        if source in ("random", "fixed"):
            return _rows(self.table.index_select(2, places), position, n)
        if source == "factorised_random":
            return _rows(self.rows, position, n) @ self.columns.index_select(1, places).transpose(-2, -1)
        tokens = torch.unflatten(x, -1, (self.n_heads, -1)).permute(2, 0, 1, 3).flatten(1, 2)  # (heads, batch * n, ...)
        if source == "dense":
            scores = torch.bmm(F.relu(torch.bmm(tokens, self.hidden)), self.out).index_select(2, places)
        else:
            coarse, fine = torch.bmm(tokens, self.coarse), torch.bmm(tokens, self.fine)
            scores = coarse.index_select(2, places // fine.shape[2]) * fine.index_select(2, places % fine.shape[2])
        return torch.unflatten(scores, 1, (-1, n)).transpose(0, 1)

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """Values of all tokens; keys, too, where the scores are mixed."""
        return ((batch, self.n_heads, past, self.head_dim),) * (2 if self.mix else 1)

    def matrices(self) -> dict[str, Product]:
        grouped = dict.fromkeys(("hidden", "out", "coarse", "fine"), Product.GROUPED)
        return grouped | dict.fromkeys(("table", "rows", "columns"), Product.NONE)

    def layouts(self) -> dict[str, Layout]:
        """Learned and fixed tables are stored separately."""
        own = dict.fromkeys(("hidden", "out", "coarse", "fine"), Layout(inputs=(1,)))
        own |= {"table": Layout(bank=self.sources[0], init=1.0),
                "mixture": Layout(init="zeros", bank="" if len(self.sources) == 1 else "both")}
        return super().layouts() | own


def _rows(table: Tensor, position: int | Tensor, n: int) -> Tensor:
    """(batch or 1, heads, n, ...): the rows of tables (heads, context, ...) at the positions of n tokens."""
    if isinstance(position, Tensor):
        return table[:, position].transpose(0, 1)
    return table[None, :, position : position + n]


def _shapes(scores: str, n_heads: int, head_dim: int, context: int, rank: int) -> dict[str, tuple[int, ...]]:
    """The tensors that give the scores."""
    if scores == "random_dense":
        return {name: shape for source in BOTH
                for name, shape in _shapes(source, n_heads, head_dim, context, rank).items()}
    fine = -(-context // rank)
    return {
        "dense": {"hidden": (n_heads, head_dim, head_dim), "out": (n_heads, head_dim, context)},
        "random": {"table": (n_heads, context, context)},
        "fixed": {"table": (n_heads, context, context)},
        "factorised_dense": {"coarse": (n_heads, head_dim, rank), "fine": (n_heads, head_dim, fine)},
        "factorised_random": {"rows": (n_heads, context, rank), "columns": (n_heads, context, rank)},
    }[scores]


def _canonical(dims: dict[str, Value], facts: Mapping[str, Value]) -> tuple[str, dict[str, Value]]:
    """Only factorised scores have a rank."""
    return "synthesizer", dims if str(dims["scores"]).startswith("factorised") else {**dims, "rank": 1}


KIND = Kind(
    name="synthesizer",
    role="mixer",
    module=Synthesizer,
    help="attention with scores that are learned, random or computed from one token (Synthesizer)",
    paper="Tay et al. (2020), Synthesizer, arXiv:2005.00743",
    dims=(
        Dim("n_heads", int, "number of heads"),
        Dim("scores", str, "source of the scores", choices=SCORES),
        Dim("rank", int, "rank of factorised scores; other scores ignore it", default=8),
        Dim("mix", bool, "whether query-key scores are mixed in", default=False),
    ),
    facts=ATTENDS,
    rules=(
        Rule(("n_heads", "width"), lambda n_heads, width: width % n_heads == 0, "n_heads must divide the width"),
        Rule(("n_heads", "width", "mix", "positions"),
             lambda n_heads, width, mix, positions: not mix or positions != "rotary" or width // n_heads % 2 == 0,
             "rotary positions need an even width / n_heads"),
        Rule(("rank", "context"), lambda rank, context: rank <= context, "the rank must not exceed the context"),
    ),
    canonical=_canonical,
    words=lambda dims, width: ("synthesizer", f"{dims['n_heads']} heads", dims["scores"].replace("_", " "),
                               "mixed" if dims["mix"] else ""),
    parts=lambda dims, width: (DrawnPart(width, "attends", dims["n_heads"]),),
)
