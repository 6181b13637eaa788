"""Linear attention: the kernel is a product of (elu(q) + 1) and (elu(k) + 1)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from search_spaces.kind import Kind
from supernet.blocks.attention import ATTENDS, EVEN_HEADS, OWN_HEADS, drawn_heads, heads_in_words
from supernet.layers.kernel_attention import KernelHeads


class LinearAttention(KernelHeads):
    """Every token attends to all visible tokens, with weights that are products of positive features."""

    @property
    def n_features(self) -> int:  # type: ignore[override]
        return self.head_dim

    def query_features(self, q: Tensor) -> Tensor:
        return F.elu(q) + 1

    def key_features(self, k: Tensor) -> Tensor:
        return F.elu(k) + 1


KIND = Kind(
    name="linear_attention",
    role="mixer",
    module=LinearAttention,
    help="linear attention with the features elu + 1 (Katharopoulos et al.)",
    paper="Katharopoulos et al. (2020), Transformers are RNNs, arXiv:2006.16236",
    dims=OWN_HEADS,
    facts=ATTENDS,
    rules=(EVEN_HEADS,),
    words=lambda dims, width: ("linear attention", heads_in_words(dims)),
    parts=drawn_heads,
)
