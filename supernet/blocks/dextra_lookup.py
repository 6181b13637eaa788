"""DeLighT's token embedding: a narrow table widened by a DExTra unit."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from search_spaces.kind import Dim, DrawnPart, Kind
from supernet.blocks.delight import DEXTRA_DIMS, DEXTRA_RULES, canonical_dextra
from supernet.blocks.lookup import widened
from supernet.layers.dextra import DExTra
from supernet.layers.groups import most_groups
from supernet.layers.tables import TABLE_STD, Table, rows, sinusoids, table
from supernet.layout import Layout


class DextraLookup(nn.Module):
    """ids -> table of `rank` -> DExTra to the model's width, plus positions.

    Args:
        sides: 2 gives target tokens their own DExTra unit after the same table, as in the released code.
    """

    def __init__(self, *, width: int, vocab_size: int, context: int, positions: str, sides: int, rank: int, scale: bool,
                 depth: int, multiplier: float, group_start: int) -> None:
        super().__init__()
        self.factor = rank**0.5 if scale else 1.0
        self.table = table(vocab_size, rank)
        make = partial(DExTra, in_dim=rank, inner_dim=width // 2, out_dim=width, depth=depth, multiplier=multiplier,
                       group_start=group_start, max_groups=most_groups(width))
        self.dextra = make()
        self.target_dextra = make() if sides == 2 else None
        self.place = table(context, width) if positions == "learned" else None
        self.waves = Table(partial(sinusoids, context, width), (context, width)) if positions == "sinusoidal" else None
        self.drop = nn.Dropout(0.0)

    def forward(self, tokens: Tensor, types: Tensor | None = None, target: bool = False,
                position: int | Tensor = 0) -> Tensor:
        """tokens: (batch, n), of the target where `target` is true."""
        widen = self.target_dextra if target and self.target_dextra is not None else self.dextra
        x = widen(self.table(tokens) * self.factor)
        if self.place is not None:
            x = x + rows(self.place.weight, position, x.shape[1])
        if self.waves is not None:
            x = x + rows(self.waves.values, position, x.shape[1])
        return self.drop(x)

    def layouts(self) -> dict[str, Layout]:
        return {name: Layout(init=TABLE_STD) for name in ("table.weight", "place.weight")}


KIND = Kind(
    name="dextra_lookup",
    role="embedding",
    module=DextraLookup,
    help="narrow embedding table widened by a DExTra unit",
    paper="Mehta et al. (2021), DeLighT, arXiv:2008.00623",
    dims=(
        Dim("rank", int, "width of the table"),
        Dim("scale", bool, "whether embeddings are multiplied by the square root of their width", default=True),
        *DEXTRA_DIMS,
    ),
    facts=("width", "vocab_size", "context", "positions", "sides"),
    rules=DEXTRA_RULES,
    canonical=lambda dims, facts: ("dextra_lookup", canonical_dextra(dims, facts)),
    words=lambda dims, width: ("embedding", widened(dims["rank"], width), f"DExTra depth {dims['depth']}"),
    parts=lambda dims, width: (DrawnPart(dims["rank"]),),
)
