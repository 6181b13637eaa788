"""An output layer with its own matrix, optionally factorised."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from search_spaces.kind import FULL, Dim, DrawnPart, Kind, Rule
from supernet.layers.tables import TABLE_STD
from supernet.layout import OWN, Core, Layout


class LinearHead(nn.Module):
    """h -> (head_rank) -> one logit per token of the vocabulary."""

    def __init__(self, *, width: int, vocab_size: int, head_rank: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, head_rank, bias=False) if head_rank != width else None
        self.words = nn.Linear(head_rank, vocab_size, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None, tied: Mapping[str, Tensor]) -> Tensor:
        return self.words(x if self.project is None else self.project(x))

    def layouts(self) -> dict[str, Layout]:
        """A full matrix is the product of the factorised ones, plus a matrix of its own."""
        factor = Layout(init=TABLE_STD)
        if self.project is not None:
            return {"words.weight": factor}
        core = Core("words.weight", "project.weight", before=factor, transposed=True)
        return {"words.weight": Layout(init=TABLE_STD, bank=OWN, core=core)}


KIND = Kind(
    name="linear",
    role="head",
    over_words=True,
    module=LinearHead,
    help="logits from a separate output matrix",
    dims=(Dim("head_rank", int, "inner width of the output matrix", default="full", expressions=(FULL,)),),
    facts=("width", "vocab_size"),
    rules=(Rule(("head_rank", "width"), lambda rank, width: rank <= width, "head_rank must be at most the width"),),
    words=lambda dims, width: ("head", f"rank {dims['head_rank']}" if dims["head_rank"] < width else "own matrix"),
    parts=lambda dims, width: (DrawnPart(dims["head_rank"]),),
)
