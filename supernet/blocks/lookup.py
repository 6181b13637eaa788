"""The token embedding: a table, factorised where its rank is less than the model's width."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from torch import Tensor, nn

from search_spaces.kind import FULL, Dim, DrawnPart, Kind, Rule, Value
from supernet.layers.norms import make_norm
from supernet.layers.tables import TABLE_STD, Table, rows, sinusoids, table
from supernet.layout import OWN, Core, Layout


class Lookup(nn.Module):
    """ids -> table -> (positions and types) -> linear map to the model's width.

    Args:
        rank: width of the table; the linear map is left out where it equals the width.
        positions_at: whether positions and types are added at the `width` or at the `rank`.
        norm_after: whether the sum is normalised (BERT, ALBERT).
        scale: whether table rows are multiplied by the square root of their width.
        wavelengths: of sinusoidal positions, see `supernet.layers.tables.sinusoids`.
        by_side: whether the target has learned positions and a norm of its own (BART).
    """

    def __init__(self, *, width: int, vocab_size: int, context: int, n_types: int, positions: str, norm: str,
                 bias: bool, norm_eps: float, rank: int, positions_at: str, norm_after: bool, scale: bool,
                 wavelengths: str, by_side: bool) -> None:
        super().__init__()
        at = rank if positions_at == "rank" else width
        self.factor = rank**0.5 if scale else 1.0
        self.early = positions_at == "rank"
        self.table = table(vocab_size, rank)
        self.project = nn.Linear(rank, width, bias=bias) if rank != width else None
        self.place = table(context, at) if positions == "learned" else None
        self.waves = Table(partial(sinusoids, context, at, wavelengths == "tensor2tensor"),
                           (context, at)) if positions == "sinusoidal" else None
        self.types = table(n_types, at) if n_types else None
        self.norm = make_norm(norm, at, norm_eps) if norm_after else None
        self.target_place = table(context, at) if by_side and positions == "learned" else None
        self.target_norm = make_norm(norm, at, norm_eps) if by_side and norm_after else None
        self.drop = nn.Dropout(0.0)

    def forward(self, tokens: Tensor, types: Tensor | None = None, target: bool = False,
                position: int | Tensor = 0) -> Tensor:
        """tokens, types: (batch, n); types default to 0. Source and target share the table."""
        x = self.table(tokens) * self.factor
        if self.early:
            x = self._place(x, types, target, position)
        if self.project is not None:
            x = self.project(x)
        if not self.early:
            x = self._place(x, types, target, position)
        return self.drop(x)

    def _place(self, x: Tensor, types: Tensor | None, target: bool, position: int | Tensor) -> Tensor:
        place = self.target_place if target and self.target_place is not None else self.place
        norm = self.target_norm if target and self.target_norm is not None else self.norm
        if place is not None:
            x = x + rows(place.weight, position, x.shape[1])
        if self.waves is not None:
            x = x + rows(self.waves.values, position, x.shape[1])
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        return x if norm is None else norm(x)

    def layouts(self) -> dict[str, Layout]:
        """A table of the full width is the product of the factorised one and its map, plus a table of its own."""
        layouts = {name: Layout(init=TABLE_STD) for name in ("table.weight", "place.weight", "target_place.weight",
                                                           "types.weight")}
        if self.project is None:
            direct = Layout(init=TABLE_STD, bank="direct")
            core = Core("table.weight", "project.weight", before=direct, scaled=self.factor != 1.0)
            layouts["table.weight"] = Layout(init=TABLE_STD, bank=OWN, core=core)
        return layouts


def _canonical(dims: dict[str, Value], facts: Mapping[str, Value]) -> tuple[str, dict[str, Value]]:
    """If rank equals width, or nothing is added, `positions_at` has no effect."""
    adds = facts["positions"] in ("learned", "sinusoidal") or facts["n_types"] or dims["norm_after"]
    if dims["rank"] == facts["width"] or not adds:
        dims = {**dims, "positions_at": "width"}
    if facts["positions"] != "sinusoidal":
        dims = {**dims, "wavelengths": "tensor2tensor"}
    if facts["positions"] != "learned" and not dims["norm_after"]:
        dims = {**dims, "by_side": False}
    return "lookup", dims


def widened(rank: int, width: int) -> str:
    """The widths of a table and of the projected rows: `rank 64 to 256`."""
    return f"rank {rank} to {width}" if rank < width else f"{width}"


KIND = Kind(
    name="lookup",
    role="embedding",
    module=Lookup,
    help="embedding table, factorised if rank is less than the model width",
    paper="Lan et al. (2020), ALBERT, arXiv:1909.11942",
    projects=True,
    dims=(
        Dim("rank", int, "width of the table", default="full", expressions=(FULL,)),
        Dim("positions_at", str, "where positions and types are added: before (rank) or after (width) the "
                                 "projection to the width", default="width", choices=("width", "rank")),
        Dim("norm_after", bool, "whether the embedding is normalised", default=False),
        Dim("scale", bool, "whether embeddings are multiplied by the square root of their width", default=False),
        Dim("wavelengths", str,
            "longest wavelength of sinusoidal positions: 2π x 10,000 (tensor2tensor), or less (paper)",
            default="tensor2tensor", choices=("tensor2tensor", "paper"), optional=True),
        Dim("by_side", bool, "whether the target has its own positions and norm", default=False, optional=True),
    ),
    facts=("width", "vocab_size", "context", "n_types", "positions", "norm", "bias", "norm_eps"),
    rules=(Rule(("rank", "width"), lambda rank, width: rank <= width, "the rank must be at most the width"),
           Rule(("by_side", "sides"), lambda by_side, sides: not by_side or sides == 2,
                "by_side needs source and target to share one embedding")),
    canonical=_canonical,
    words=lambda dims, width: ("embedding", widened(dims["rank"], width)),
    parts=lambda dims, width: (DrawnPart(dims["rank"]),),
)
