"""MobileBERT's embedding: a narrow table, and a linear map of every token with its two neighbours."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import Dim, DrawnPart, Kind, Rule
from supernet.blocks.lookup import widened
from supernet.layers.norms import make_norm
from supernet.layers.positions import AddedPositions
from supernet.layers.tables import TABLE_STD, table
from supernet.layout import Layout

PAD = 0
"""Token id of padding; as a neighbour it is a zero vector, like positions beyond either end."""


class TrigramLookup(nn.Module):
    """ids -> table -> linear map of (next, this, previous) token to the model's width, plus positions and types."""

    def __init__(self, *, width: int, vocab_size: int, context: int, n_types: int, positions: str, norm: str,
                 bias: bool, rank: int, norm_after: bool) -> None:
        super().__init__()
        self.table = table(vocab_size, rank)
        self.project = nn.Linear(3 * rank, width, bias=bias)
        self.places = AddedPositions(positions, context, width)
        self.types = table(n_types, width) if n_types else None
        self.norm = make_norm(norm, width) if norm_after else None
        self.drop = nn.Dropout(0.0)

    def forward(self, tokens: Tensor, types: Tensor | None = None, target: bool = False,
                position: int | Tensor = 0) -> Tensor:
        """tokens, types: (batch, n); types default to 0."""
        x = self.table(tokens) * (tokens != PAD)[..., None].to(self.project.weight.dtype)
        around = F.pad(x, (0, 0, 1, 1))
        x = self.places(self.project(torch.cat([around[:, 2:], x, around[:, :-2]], dim=-1)), position)
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        return self.drop(x if self.norm is None else self.norm(x))

    def layouts(self) -> dict[str, Layout]:
        return {"table.weight": Layout(init=TABLE_STD), "types.weight": Layout(init=TABLE_STD),
                "project.weight": Layout(parts=(1, (self.table.embedding_dim,) * 3))}


KIND = Kind(
    name="trigram_lookup",
    role="embedding",
    module=TrigramLookup,
    help="narrow embedding table and a linear map of each token with its two neighbours",
    paper="Sun et al. (2020), MobileBERT, arXiv:2004.02984",
    causal=False,
    dims=(
        Dim("rank", int, "width of the table"),
        Dim("norm_after", bool, "whether the embedding is normalised", default=False),
    ),
    facts=("width", "vocab_size", "context", "n_types", "positions", "norm", "bias"),
    rules=(Rule(("rank", "width"), lambda rank, width: rank <= width, "the rank must be at most the width"),),
    words=lambda dims, width: ("embedding", widened(dims["rank"], width), "of three tokens"),
    parts=lambda dims, width: (DrawnPart(dims["rank"]),) * 3,
)
