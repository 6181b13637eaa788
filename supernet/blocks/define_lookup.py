"""DeFINE: a narrow table whose rows are widened by a hierarchy of group transformations and reduced to the width."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import Dim, DrawnPart, Kind, Rule
from supernet.blocks.lookup import widened
from supernet.layers.dextra import GroupLinear
from supernet.layers.positions import AddedPositions
from supernet.layers.tables import TABLE_STD, table
from supernet.layout import Layout


class GroupTransform(GroupLinear):
    """A separate linear map per group, LayerNorm within a group, GELU; groups stay in their places."""

    def forward(self, x: Tensor) -> Tensor:
        """(batch, n, groups, sum(segments)) -> (batch, n, groups * group_dim)."""
        batch, n = x.shape[:2]
        flat = x.reshape(batch * n, self.groups, -1).transpose(0, 1)
        y = torch.baddbmm(self.bias[:, None], flat, self.weight).transpose(0, 1)
        return self.drop(F.gelu(self.norm(y))).reshape(batch, n, -1)


class DefineLookup(nn.Module):
    """ids -> table -> group transformations with fewer and fewer groups, each of which sees the row again -> width.

    The result depends on the token alone until positions are added, so it can be stored as one table.
    """

    def __init__(self, *, width: int, vocab_size: int, context: int, positions: str, bias: bool, rank: int, depth: int,
                 expansion: int, groups: int) -> None:
        super().__init__()
        self.table = table(vocab_size, rank)
        self.groups, widths = define_shapes(rank, depth, expansion, groups)
        previous = 0
        for i, (count, wide) in enumerate(zip(self.groups, widths)):
            parts = (previous // count, rank // count) if i else (rank // count,)
            self.add_module(f"layer{i}", GroupTransform(parts, wide // count, count))
            previous = wide
        self.reduce = nn.Linear(widths[-1], width, bias=bias)
        self.places = AddedPositions(positions, context, width)
        self.drop = nn.Dropout(0.0)

    def forward(self, tokens: Tensor, types: Tensor | None = None, target: bool = False,
                position: int | Tensor = 0) -> Tensor:
        """tokens: (batch, n). Source and target are read alike."""
        x = self.table(tokens)
        y = x.unflatten(-1, (self.groups[0], -1))
        for i, groups in enumerate(self.groups):
            if i:
                y = torch.cat([y.unflatten(-1, (groups, -1)), x.unflatten(-1, (groups, -1))], dim=-1)
            y = self.get_submodule(f"layer{i}")(y)
        return self.drop(self.places(self.reduce(y), position))

    def layouts(self) -> dict[str, Layout]:
        return {"table.weight": Layout(init=TABLE_STD)}


def define_shapes(rank: int, depth: int, expansion: int, groups: int) -> tuple[list[int], list[int]]:
    """Groups and widths of the transformations: half as many groups each time, widths in equal steps to `expansion`.

    A width is rounded up to what its groups and those of the next layer divide.
    """
    counts = [max(groups // 2**i, 1) for i in range(depth)]
    widths = []
    for i, count in enumerate(counts):
        wide = rank + (expansion - rank) * (i + 1) // depth
        widths.append(-(-wide // count) * count)  # the next layer's groups divide this one's
    return counts, widths


KIND = Kind(
    name="define_lookup",
    role="embedding",
    module=DefineLookup,
    help="narrow embedding table widened by a hierarchy of group transformations (DeFINE)",
    paper="Mehta et al. (2020), DeFINE, arXiv:1911.12385",
    dims=(
        Dim("rank", int, "width of the table"),
        Dim("depth", int, "number of group transformations", default=3, most=64),
        Dim("expansion", int, "width of the last transformation"),
        Dim("groups", int, "groups of the first transformation, a power of two; halved in each later one",
            default=4, most=1024),
    ),
    facts=("width", "vocab_size", "context", "positions", "bias"),
    rules=(
        Rule(("groups",), lambda groups: groups & (groups - 1) == 0, "groups must be a power of two"),
        Rule(("rank", "groups"), lambda rank, groups: rank % groups == 0, "groups must divide the rank"),
        Rule(("expansion", "rank"), lambda expansion, rank: expansion >= rank, "expansion must be at least the rank"),
    ),
    words=lambda dims, width: ("embedding", widened(dims["rank"], width), f"DeFINE depth {dims['depth']}"),
    parts=lambda dims, width: (DrawnPart(dims["rank"]), DrawnPart(dims["expansion"], "deep")),
)
