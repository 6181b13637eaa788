"""Random feature attention: a Gaussian kernel of unit vectors, estimated by random sines and cosines."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from search_spaces.kind import Dim, Kind
from supernet.blocks.attention import ATTENDS, EVEN_HEADS, OWN_HEADS, drawn_heads, heads_in_words
from supernet.layers.kernel_attention import KernelHeads
from supernet.layout import Layout


class RandomFeatureAttention(KernelHeads):
    """exp(-|q - k|^2 / 2) of unit vectors is the mean of cos(w (q - k)) over random frequencies w."""

    frequencies: Tensor
    least = math.exp(-2)
    """Lower bound of the denominator: the kernel of opposite unit vectors. Estimated sums can be less, or negative."""

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_heads: int,
                 head_dim: int, n_frequencies: int) -> None:
        super().__init__(width=width, causal=causal, positions=positions, context=context, bias=bias, n_heads=n_heads,
                         head_dim=head_dim)
        self.n_features = 2 * n_frequencies
        self.register_buffer("frequencies", torch.zeros(n_heads, n_frequencies, head_dim))

    def query_features(self, q: Tensor) -> Tensor:
        angles = F.normalize(q, dim=-1) @ self.frequencies.transpose(-2, -1)
        return torch.cat([angles.sin(), angles.cos()], dim=-1) * (self.n_features / 2) ** -0.5

    def key_features(self, k: Tensor) -> Tensor:
        return self.query_features(k)

    def layouts(self) -> dict[str, Layout]:
        return super().layouts() | {"frequencies": Layout(init=1.0)}


KIND = Kind(
    name="random_feature_attention",
    role="mixer",
    module=RandomFeatureAttention,
    help="attention with random Fourier features (RFA)",
    paper="Peng et al. (2021), Random Feature Attention, arXiv:2103.02143",
    dims=(*OWN_HEADS, Dim("n_frequencies", int, "number of random frequencies; each gives a sine and a cosine",
                          least=8)),
    facts=ATTENDS,
    rules=(EVEN_HEADS,),
    words=lambda dims, width: ("random feature attention", heads_in_words(dims),
                               f"{dims['n_frequencies']} frequencies"),
    parts=drawn_heads,
)
