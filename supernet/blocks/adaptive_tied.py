"""The adaptive softmax that uses the tables of an adaptive input."""

from __future__ import annotations

from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import Kind
from supernet.blocks.tied import TIED_DIMS, TIED_RULES, canonical_tied
from supernet.layers.adaptive import adaptive_log_probs
from supernet.layers.bands import parse_bands


class AdaptiveTiedHead(nn.Module):
    """h -> rank of the first table -> the maps and tables of the embedding's bands: one log-probability per word.

    Args:
        tables: rows and width of each, see `supernet.layers.bands`.
        projection: `shared` uses the transposed linear map of the embedding, `own` learns another.
    """

    def __init__(self, *, width: int, rank: int, tables: str, projection: str) -> None:
        super().__init__()
        self.sizes, self.rank, self.width = parse_bands(tables), rank, width
        self.back = rank != width and projection == "shared"
        self.project = nn.Linear(width, rank, bias=False) if projection == "own" else None
        self.bands = nn.Linear(rank, len(self.sizes) - 1, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None, tied: Mapping[str, Tensor]) -> Tensor:
        if self.project is not None:
            x = self.project(x)
        elif self.back:
            x = x @ tied["project.weight"]
        words = [F.linear(x @ tied[f"bands.map{i}.weight"], tied[f"bands.words{i}.weight"])
                 for i in range(len(self.sizes))]
        return adaptive_log_probs(words[0], self.bands(x), words[1:])

    def tied_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {"project.weight": (self.width, self.rank)}
        for i, (rows, width) in enumerate(self.sizes):
            shapes |= {f"bands.words{i}.weight": (rows, width), f"bands.map{i}.weight": (self.rank, width)}
        return shapes


KIND = Kind(
    name="adaptive_tied",
    role="head",
    over_words=True,
    module=AdaptiveTiedHead,
    help="adaptive softmax over the embedding's tables; `tied` becomes this after an adaptive embedding",
    paper="Baevski and Auli (2019), Adaptive Input Representations, arXiv:1809.10853",
    ties=True,
    dims=TIED_DIMS,
    facts=("width", "rank", "tables"),
    rules=TIED_RULES,
    canonical=canonical_tied,
    words=lambda dims, width: ("head", "adaptive, tied to the embedding"),
)
