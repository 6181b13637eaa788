"""BERT's masked language modelling head: a transformation, then the embedding table and a bias."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import Dim, Kind, Rule
from supernet.blocks.ffn import ACTIVATIONS
from supernet.layers.norms import make_norm


class MaskedLMHead(nn.Module):
    """h -> Lin to the table's width, activation, norm -> table: one logit per token of the vocabulary."""

    def __init__(self, *, width: int, rank: int, vocab_size: int, norm: str, norm_eps: float,
                 activation: str) -> None:
        super().__init__()
        self.transform = nn.Linear(width, rank)
        self.norm = make_norm(norm, rank, norm_eps)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.rank, self.activate = rank, ACTIVATIONS[activation]

    def forward(self, x: Tensor, mask: Tensor | None, tied: Mapping[str, Tensor]) -> Tensor:
        return F.linear(self.norm(self.activate(self.transform(x))), tied["table.weight"], self.bias)

    def tied_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"table.weight": (len(self.bias), self.rank)}


KIND = Kind(
    name="masked_lm",
    role="head",
    over_words=True,
    module=MaskedLMHead,
    help="logits of masked tokens",
    paper="Devlin et al. (2019), BERT, arXiv:1810.04805",
    ties=True,
    rules=(Rule(("tables",), lambda tables: tables == "words", "it needs an embedding with a single table for all "
                                                               "words"),),
    dims=(Dim("activation", str, "activation", default="gelu", choices=tuple(ACTIVATIONS), optional=True),),
    facts=("width", "rank", "vocab_size", "norm", "norm_eps"),
)
