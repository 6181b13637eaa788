"""The output layer with tied weights: it uses the embedding table."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import Dim, Kind, Rule, Value


class TiedHead(nn.Module):
    """h -> rank of the table -> table: one logit per token of the vocabulary.

    Args:
        projection: `shared` uses the transposed linear map of the embedding, `own` learns another.
        scale: whether h is divided by the square root of the width (T5).
        word_bias: whether every word has a bias (Marian).
    """

    def __init__(self, *, width: int, rank: int, vocab_size: int, projection: str, scale: bool,
                 word_bias: bool) -> None:
        super().__init__()
        self.factor = width**-0.5 if scale else None
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if word_bias else None
        self.shapes = {"table.weight": (vocab_size, rank), "project.weight": (width, rank)}
        self.back = rank != width and projection == "shared"
        self.project = nn.Linear(width, rank, bias=False) if projection == "own" else None

    def forward(self, x: Tensor, mask: Tensor | None, tied: Mapping[str, Tensor]) -> Tensor:
        if self.factor is not None:
            x = x * self.factor
        if self.project is not None:
            x = self.project(x)
        elif self.back:
            x = x @ tied["project.weight"]
        return F.linear(x, tied["table.weight"], self.bias)

    def tied_shapes(self) -> dict[str, tuple[int, ...]]:
        return self.shapes


TIED_DIMS = (
    Dim("projection", str, "projection to the width of the table: the embedding's (shared) or its own",
        default="shared", choices=("shared", "own")),
)
"""The dims of everything that uses the embedding's tables."""
TIED_RULES = (
    Rule(("projection", "projects", "rank", "width"),
         lambda projection, projects, rank, width: projection == "own" or projects or rank == width,
         "this embedding has no projection to share; use `own`"),
)


def canonical_tied(dims: dict[str, Value], facts: Mapping[str, Value]) -> tuple[str, dict[str, Value]]:
    """Tied to bands of words it is an adaptive softmax; where there is no table of words, the head has its own."""
    if facts["tables"] == "words":
        return "tied", dims
    if facts["tables"] == "none":
        return "linear", {"head_rank": facts["rank"]}
    return "adaptive_tied", {"projection": dims["projection"]}


KIND = Kind(
    name="tied",
    role="head",
    over_words=True,
    module=TiedHead,
    help="logits from the embedding table (tied weights)",
    paper="Press and Wolf (2017), Using the Output Embedding, arXiv:1608.05859",
    ties=True,
    dims=(*TIED_DIMS,
          Dim("scale", bool, "whether hidden states are divided by the square root of the width", default=False,
              optional=True),
          Dim("word_bias", bool, "whether every word has a bias", default=False, optional=True)),
    facts=("width", "rank", "vocab_size"),
    rules=TIED_RULES,
    canonical=canonical_tied,
    words=lambda dims, width: ("head", "tied to the embedding"),
)
