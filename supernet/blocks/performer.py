"""Performer: softmax attention estimated by positive random features."""

from __future__ import annotations

import torch
from torch import Tensor

from search_spaces.kind import Dim, Kind
from supernet.blocks.attention import ATTENDS, EVEN_HEADS, OWN_HEADS, drawn_heads, heads_in_words
from supernet.layers.kernel_attention import KernelHeads
from supernet.layout import Layout

LARGEST = 60.0
"""Maximum exponent, so that sums of exponentials are finite in single precision."""
TINY = 1e-6
"""Added to the features of keys, as in the released code, so that no denominator is zero."""


class Performer(KernelHeads):
    """exp(q k / sqrt(head_dim)) is the mean of products of features exp(w x - |x|^2 / 2) over random directions w."""

    directions: Tensor

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_heads: int,
                 head_dim: int, n_features: int) -> None:
        super().__init__(width=width, causal=causal, positions=positions, context=context, bias=bias, n_heads=n_heads,
                         head_dim=head_dim)
        self.n_features = n_features
        self.register_buffer("directions", torch.zeros(n_heads, n_features, head_dim))

    def query_features(self, q: Tensor) -> Tensor:
        logs = self.log_features(q)
        return (logs - logs.amax(dim=-1, keepdim=True)).exp()  # a factor per query cancels out

    def key_features(self, k: Tensor) -> Tensor:
        return self.log_features(k).clamp(max=LARGEST).exp() + TINY

    def log_features(self, x: Tensor) -> Tensor:
        """Logarithms of the features, without the factor n_features^-1/2."""
        x = x * self.head_dim**-0.25
        return x @ self.directions.transpose(-2, -1) - x.square().sum(dim=-1, keepdim=True) / 2

    def layouts(self) -> dict[str, Layout]:
        """Directions that are orthogonal in one head size are not in another, so each has its own."""
        return super().layouts() | {"directions": Layout(bank=f"d{self.head_dim}", init="orthogonal")}


KIND = Kind(
    name="performer",
    role="mixer",
    module=Performer,
    help="attention with positive orthogonal random features (Performer)",
    paper="Choromanski et al. (2021), Rethinking Attention with Performers, arXiv:2009.14794",
    dims=(*OWN_HEADS, Dim("n_features", int, "number of random features", least=8)),
    facts=ATTENDS,
    rules=(EVEN_HEADS,),
    words=lambda dims, width: ("Performer", heads_in_words(dims), f"{dims['n_features']} features"),
    parts=drawn_heads,
)
