"""Adaptive input: rare words have narrower embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from search_spaces.kind import FULL, Dim, DrawnPart, Kind, Rule, Value
from supernet.blocks.lookup import widened
from supernet.layers.adaptive import BandedTable
from supernet.layers.bands import bands_fit, describe_bands
from supernet.layers.positions import AddedPositions

BAND_DIMS = (
    Dim("bands", int, "number of frequency bands; token ids must be sorted by decreasing frequency", default=3, least=2,
        most=16),
    Dim("first", int, "number of words in the first band, the most frequent ones"),
    Dim("growth", float, "factor by which the cumulative number of words grows per band", default=3.0, least=1.01),
    Dim("factor", int, "factor by which each band is narrower than the previous one", default=4),
)
"""The dims of everything that splits its words into bands."""
BAND_RULES = (
    Rule(("first", "vocab_size", "bands", "growth"), lambda first, words, bands, growth: bands_fit(
        words, bands, first, growth), "every band needs at least one word"),
)
NARROWEST = Rule(("rank", "bands", "factor"), lambda rank, bands, factor: rank // factor ** (bands - 1) >= 1,
                 "the last band needs at least one channel")


def canonical_bands(dims: dict[str, Value]) -> dict[str, Value]:
    """With two bands, the growth has no effect."""
    return {**dims, "growth": 3.0} if dims["bands"] == 2 else dims


def describe_tables(dims: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The fact `tables` of heads after an embedding with `BAND_DIMS` and a rank."""
    return describe_bands(facts["vocab_size"], dims["rank"], dims["bands"], dims["first"], dims["growth"],
                          dims["factor"])


class AdaptiveLookup(nn.Module):
    """ids -> the table and linear map of the word's band -> (linear map to the model's width), plus positions."""

    def __init__(self, *, width: int, vocab_size: int, context: int, positions: str, bias: bool, rank: int, scale: bool,
                 bands: int, first: int, growth: float, factor: int) -> None:
        super().__init__()
        self.factor = rank**0.5 if scale else 1.0
        self.bands = BandedTable(describe_bands(vocab_size, rank, bands, first, growth, factor), rank)
        self.project = nn.Linear(rank, width, bias=bias) if rank != width else None
        self.places = AddedPositions(positions, context, width)
        self.drop = nn.Dropout(0.0)

    def forward(self, tokens: Tensor, types: Tensor | None = None, target: bool = False,
                position: int | Tensor = 0) -> Tensor:
        """tokens: (batch, n). Source and target are read alike."""
        x = self.bands(tokens) * self.factor
        x = x if self.project is None else self.project(x)
        return self.drop(self.places(x, position))


KIND = Kind(
    name="adaptive_lookup",
    role="embedding",
    module=AdaptiveLookup,
    help="one embedding table per frequency band, narrower for rare words (adaptive input)",
    paper="Baevski and Auli (2019), Adaptive Input Representations, arXiv:1809.10853",
    projects=True,
    tables=describe_tables,
    dims=(
        Dim("rank", int, "width of the first table", default="full", expressions=(FULL,)),
        Dim("scale", bool, "whether embeddings are multiplied by the square root of the rank", default=False),
        *BAND_DIMS,
    ),
    facts=("width", "vocab_size", "context", "positions", "bias"),
    rules=(Rule(("rank", "width"), lambda rank, width: rank <= width, "the rank must be at most the width"),
           NARROWEST, *BAND_RULES),
    canonical=lambda dims, facts: ("adaptive_lookup", canonical_bands(dims)),
    words=lambda dims, width: ("embedding", widened(dims["rank"], width), f"{dims['bands']} bands"),
    parts=lambda dims, width: tuple(DrawnPart(dims["rank"] / dims["factor"]**i) for i in range(min(dims["bands"], 4))),
)
