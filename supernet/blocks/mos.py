"""Mixture of softmaxes: several distributions over the vocabulary, with weights that depend on the token."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import Dim, DrawnPart, Kind, Value
from supernet.layers.tables import TABLE_STD
from supernet.layout import Layout


class MixtureOfSoftmaxes(nn.Module):
    """The log of the sum over k of pi_k softmax(table tanh(h_k)): one log-probability per word.

    Args:
        tied: whether the output matrix is the embedding's table; otherwise they have a matrix of their own.
    """

    def __init__(self, *, width: int, rank: int, vocab_size: int, softmaxes: int, tied: bool) -> None:
        super().__init__()
        self.shape, self.table = (softmaxes, rank), (vocab_size, rank)
        self.prior = nn.Linear(width, softmaxes, bias=False)
        self.latent = nn.Linear(width, softmaxes * rank, bias=False)
        self.words = None if tied else nn.Linear(rank, vocab_size, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None, tied: Mapping[str, Tensor]) -> Tensor:
        prior = self.prior(x).float().log_softmax(-1)
        latent = torch.tanh(self.latent(x)).unflatten(-1, self.shape)
        logits = F.linear(latent, tied["table.weight"]) if self.words is None else self.words(latent)
        mixed = torch.logsumexp(logits.float().log_softmax(-1) + prior[..., None], dim=-2)
        return mixed.clone()  # a loss may overwrite the output of a head, and the backward pass needs the sum itself

    def tied_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"table.weight": self.table} if self.words is None else {}

    def layouts(self) -> dict[str, Layout]:
        return {"latent.weight": Layout((*self.shape, self.latent.in_features)), "words.weight": Layout(init=TABLE_STD)}


def _canonical(dims: dict[str, Value], facts: Mapping[str, Value]) -> tuple[str, dict[str, Value]]:
    """Where the embedding has no table of all words, nothing can be tied to it."""
    return "mos", dims if facts["tables"] == "words" else {**dims, "tied": False}


KIND = Kind(
    name="mos",
    role="head",
    over_words=True,
    module=MixtureOfSoftmaxes,
    help="mixture of softmaxes",
    paper="Yang et al. (2018), Breaking the Softmax Bottleneck, arXiv:1711.03953",
    ties=True,
    dims=(
        Dim("softmaxes", int, "number of softmax distributions", least=2, most=1000),
        Dim("tied", bool, "whether the output matrix is the embedding's table", default=True),
    ),
    facts=("width", "rank", "vocab_size"),
    canonical=_canonical,
    words=lambda dims, width: ("head", f"{dims['softmaxes']} softmaxes", "tied" if dims["tied"] else ""),
    parts=lambda dims, width: (DrawnPart(width),) * min(dims["softmaxes"], 4),
)
