"""Heads for the whole sequence: class logits or one number, or the pooled features alone."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from search_spaces.kind import Dim, Kind, Rule, Value
from supernet.blocks.ffn import ACTIVATIONS
from supernet.layers.tables import TABLE_STD
from supernet.layout import Layout


def pool_tokens(x: Tensor, mask: Tensor | None, how: str) -> Tensor:
    """(batch, n, width) -> (batch, width): the first token, or the mean of the real ones."""
    if how == "first":
        return x[:, 0]
    if mask is None:
        return x.mean(dim=1)
    real = mask[..., None].to(x.dtype)
    return (x * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)


class Classifier(nn.Module):
    """pool -> (Lin, activation) -> class logits."""

    def __init__(self, *, width: int, n_classes: int, pool: str, pooler: bool, pooler_activation: str) -> None:
        super().__init__()
        self.pool, self.activate = pool, ACTIVATIONS.get(pooler_activation, torch.tanh)
        self.pooler = nn.Linear(width, width) if pooler else None
        self.drop = nn.Dropout(0.0)
        self.classes = nn.Linear(width, n_classes)

    def forward(self, x: Tensor, mask: Tensor | None, tied: Mapping[str, Tensor]) -> Tensor:
        x = pool_tokens(x, mask, self.pool)
        if self.pooler is not None:
            x = self.activate(self.pooler(x))
        return self.classes(self.drop(x))

    def layouts(self) -> dict[str, Layout]:
        return {"classes.weight": Layout(init=TABLE_STD)}


class Features(nn.Module):
    """The encoder's output, optionally with the pooler of published encoders."""

    def __init__(self, *, width: int, pooler: bool) -> None:
        super().__init__()
        self.pooler = nn.Linear(width, width) if pooler else None

    def forward(self, x: Tensor, mask: Tensor | None, tied: Mapping[str, Tensor]) -> Tensor:
        return x if self.pooler is None else torch.tanh(self.pooler(x[:, 0]))


def _canonical(dims: dict[str, Value], facts: Mapping[str, Value]) -> tuple[str, dict[str, Value]]:
    return "classifier", dims if dims["pooler"] else {**dims, "pooler_activation": "tanh"}


POOLER = Dim("pooler", bool, "whether a linear map and an activation follow the pooling", default=False)

CLASSIFIER = Kind(
    name="classifier",
    role="head",
    module=Classifier,
    help="class logits of the pooled sequence, or one number",
    paper="Devlin et al. (2019), BERT, arXiv:1810.04805",
    dims=(Dim("pool", str, "how the sequence is pooled", default="mean", choices=("first", "mean")), POOLER,
          Dim("pooler_activation", str, "activation of the pooler", default="tanh",
              choices=("tanh", "relu", "gelu"), optional=True)),
    canonical=_canonical,
    facts=("width", "n_classes"),
    rules=(Rule(("pool", "n_classes"), lambda _, n_classes: n_classes >= 1, "a classifier needs n_classes >= 1"),),
    words=lambda dims, width: ("classifier", f"{dims['pool']} pooling"),
)
FEATURES = Kind(
    name="features",
    role="head",
    module=Features,
    help="hidden states of the encoder",
    logits=False,
    dims=(POOLER,),
    facts=("width",),
)
