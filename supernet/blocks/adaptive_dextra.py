"""DeLighT's embedding for large vocabularies: tables in bands, widened by a DExTra unit."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from search_spaces.kind import Dim, DrawnPart, Kind
from supernet.blocks.adaptive_lookup import BAND_DIMS, BAND_RULES, NARROWEST, canonical_bands, describe_tables
from supernet.blocks.delight import DEXTRA_DIMS, DEXTRA_RULES, canonical_dextra
from supernet.blocks.lookup import widened
from supernet.layers.adaptive import BandedTable
from supernet.layers.bands import describe_bands
from supernet.layers.dextra import DExTra
from supernet.layers.groups import most_groups
from supernet.layers.positions import AddedPositions


class AdaptiveDextraLookup(nn.Module):
    """ids -> the table and linear map of the word's band -> DExTra to the model's width, plus positions.

    Args:
        sides: 2 gives target tokens their own DExTra unit after the same tables.
    """

    def __init__(self, *, width: int, vocab_size: int, context: int, positions: str, sides: int, rank: int, scale: bool,
                 bands: int, first: int, growth: float, factor: int, depth: int, multiplier: float,
                 group_start: int) -> None:
        super().__init__()
        self.factor = rank**0.5 if scale else 1.0
        self.bands = BandedTable(describe_bands(vocab_size, rank, bands, first, growth, factor), rank)
        make = partial(DExTra, in_dim=rank, inner_dim=width // 2, out_dim=width, depth=depth, multiplier=multiplier,
                       group_start=group_start, max_groups=most_groups(width))
        self.dextra = make()
        self.target_dextra = make() if sides == 2 else None
        self.places = AddedPositions(positions, context, width)
        self.drop = nn.Dropout(0.0)

    def forward(self, tokens: Tensor, types: Tensor | None = None, target: bool = False,
                position: int | Tensor = 0) -> Tensor:
        """tokens: (batch, n), of the target where `target` is true."""
        widen = self.target_dextra if target and self.target_dextra is not None else self.dextra
        return self.drop(self.places(widen(self.bands(tokens) * self.factor), position))


KIND = Kind(
    name="adaptive_dextra",
    role="embedding",
    module=AdaptiveDextraLookup,
    help="one embedding table per frequency band, widened by a DExTra unit",
    paper="Mehta et al. (2021), DeLighT, arXiv:2008.00623",
    tables=describe_tables,
    dims=(
        Dim("rank", int, "width of the first table"),
        Dim("scale", bool, "whether embeddings are multiplied by the square root of the rank", default=True),
        *BAND_DIMS,
        *DEXTRA_DIMS,
    ),
    facts=("width", "vocab_size", "context", "positions", "sides"),
    rules=(NARROWEST, *BAND_RULES, *DEXTRA_RULES),
    canonical=lambda dims, facts: ("adaptive_dextra", canonical_dextra(canonical_bands(dims), facts)),
    words=lambda dims, width: ("embedding", widened(dims["rank"], width), f"{dims['bands']} bands",
                               f"DExTra depth {dims['depth']}"),
    parts=lambda dims, width: tuple(DrawnPart(dims["rank"] / dims["factor"]**i) for i in range(min(dims["bands"], 4))),
)
