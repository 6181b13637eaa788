"""Adaptive softmax: frequent words and bands of rare words first, then the words of a band."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from search_spaces.kind import DrawnPart, Kind, Rule
from supernet.blocks.adaptive_lookup import BAND_DIMS, BAND_RULES, canonical_bands
from supernet.layers.adaptive import adaptive_log_probs, banded_layouts
from supernet.layers.bands import describe_bands, parse_bands
from supernet.layers.tables import TABLE_STD
from supernet.layout import Layout


class AdaptiveSoftmaxHead(nn.Module):
    """h -> one log-probability per word; the words of band i are scored at 1 / `factor`^i of the width.

    With `factor` 1 no band has a projection.
    """

    def __init__(self, *, width: int, vocab_size: int, bands: int, first: int, growth: float, factor: int) -> None:
        super().__init__()
        self.sizes = parse_bands(describe_bands(vocab_size, width, bands, first, growth, factor))
        self.bands = nn.Linear(width, bands - 1, bias=False)
        for i, (rows, narrow) in enumerate(self.sizes):
            if narrow != width:
                self.add_module(f"project{i}", nn.Linear(width, narrow, bias=False))
            self.add_module(f"words{i}", nn.Linear(narrow, rows, bias=False))

    def forward(self, x: Tensor, mask: Tensor | None, tied: Mapping[str, Tensor]) -> Tensor:
        words = [self.get_submodule(f"words{i}")(self._projected(x, i)) for i in range(len(self.sizes))]
        return adaptive_log_probs(words[0], self.bands(x), words[1:])

    def _projected(self, x: Tensor, band: int) -> Tensor:
        name = f"project{band}"
        out: Tensor = self.get_submodule(name)(x) if name in self._modules else x
        return out

    def layouts(self) -> dict[str, Layout]:
        return banded_layouts(self.sizes, {"words": TABLE_STD, "project": "auto"})


KIND = Kind(
    name="adaptive_softmax",
    role="head",
    over_words=True,
    module=AdaptiveSoftmaxHead,
    help="adaptive softmax with separate matrices; factor 1 omits the projections",
    paper="Grave et al. (2017), Efficient softmax approximation for GPUs, arXiv:1609.04309",
    dims=BAND_DIMS,
    facts=("width", "vocab_size"),
    rules=(Rule(("factor", "width", "bands"), lambda factor, width, bands: width // factor ** (bands - 1) >= 1,
                "the last band needs at least one channel"), *BAND_RULES),
    canonical=lambda dims, facts: ("adaptive_softmax", canonical_bands(dims)),
    words=lambda dims, width: ("head", "adaptive softmax", f"{dims['bands']} bands"),
    parts=lambda dims, width: tuple(DrawnPart(width / dims["factor"]**i) for i in range(min(dims["bands"], 4))),
)
