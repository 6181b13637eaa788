"""Hash embeddings: words share the rows of a small table, each with its own mixture."""

from __future__ import annotations

from torch import Tensor, nn

from search_spaces.kind import FULL, Dim, DrawnPart, Kind, Rule
from supernet.blocks.lookup import widened
from supernet.layers.positions import AddedPositions
from supernet.layers.tables import TABLE_STD, table
from supernet.layout import Layout

PRIME = 2**31 - 1


class HashedLookup(nn.Module):
    """ids -> the sum of the rows that `hashes` functions of the id select, with weights that each word learns.

    Words collide in a row, but hardly in all of them.
    """

    def __init__(self, *, width: int, vocab_size: int, context: int, positions: str, bias: bool, rank: int,
                 buckets: int, hashes: int) -> None:
        super().__init__()
        self.buckets = buckets
        self.rows = table(buckets, rank)
        self.weights = table(vocab_size, hashes)
        self.project = nn.Linear(rank, width, bias=bias) if rank != width else None
        self.places = AddedPositions(positions, context, width)
        self.drop = nn.Dropout(0.0)

    def forward(self, tokens: Tensor, types: Tensor | None = None, target: bool = False,
                position: int | Tensor = 0) -> Tensor:
        """tokens: (batch, n). Source and target are read alike."""
        weights, x = self.weights(tokens), None
        for i in range(weights.shape[-1]):
            row = self.rows(hashed(tokens, i, self.buckets)) * weights[..., i, None]
            x = row if x is None else x + row
        assert x is not None, "there is always a hash"
        x = x if self.project is None else self.project(x)
        return self.drop(self.places(x, position))

    def layouts(self) -> dict[str, Layout]:
        """Another number of buckets puts words in other rows."""
        bank = f"b{self.buckets}"
        return {"rows.weight": Layout(init=TABLE_STD, bank=bank), "weights.weight": Layout(init="ones", bank=bank)}


def hashed(tokens: Tensor, which: int, buckets: int) -> Tensor:
    """The bucket of every id by one of many fixed hash functions: (a id + b) mod a prime mod the buckets."""
    a, b = pow(48271, which + 1, PRIME), pow(16807, which + 1, PRIME)
    return (tokens * a + b) % PRIME % buckets


KIND = Kind(
    name="hashed_lookup",
    role="embedding",
    module=HashedLookup,
    help="hash embedding: words share the rows of a small table",
    paper="Svenstrup et al. (2017), Hash Embeddings for Efficient Word Representations, arXiv:1709.03933",
    projects=True,
    tables=lambda dims, facts: "none",
    dims=(
        Dim("rank", int, "width of the table", default="full", expressions=(FULL,)),
        Dim("buckets", int, "number of rows of the table", least=2),
        Dim("hashes", int, "number of rows summed per word", default=2, most=64),
    ),
    facts=("width", "vocab_size", "context", "positions", "bias"),
    rules=(Rule(("rank", "width"), lambda rank, width: rank <= width, "the rank must be at most the width"),),
    words=lambda dims, width: ("embedding", widened(dims["rank"], width),
                               f"{dims['hashes']} of {dims['buckets']} rows"),
    parts=lambda dims, width: (DrawnPart(dims["rank"]),) * min(dims["hashes"], 4),
)
