"""Words in bands: tables that are narrower the rarer their words are, and the softmax over them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from supernet.layers.bands import parse_bands
from supernet.layers.tables import TABLE_STD, table
from supernet.layout import Layout


class BandedTable(nn.Module):
    """ids -> the table of the word's band -> the band's linear map to `rank` channels.

    Args:
        tables: rows and width of each, see `supernet.layers.bands`.
    """

    def __init__(self, tables: str, rank: int) -> None:
        super().__init__()
        self.sizes = parse_bands(tables)
        for i, (rows, width) in enumerate(self.sizes):
            self.add_module(f"words{i}", table(rows, width))
            self.add_module(f"map{i}", nn.Linear(width, rank, bias=False))

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, n) -> (batch, n, rank)."""
        first, embedded = 0, None
        for i, (rows, _) in enumerate(self.sizes):
            ids = (tokens - first).clamp(0, rows - 1)
            here = self.get_submodule(f"map{i}")(self.get_submodule(f"words{i}")(ids))
            embedded = here if embedded is None else torch.where((tokens >= first)[..., None], here, embedded)
            first += rows
        assert embedded is not None, "there is always a band"
        return embedded

    def layouts(self) -> dict[str, Layout]:
        """Bands with different words share no weights."""
        return banded_layouts(self.sizes, {"words": TABLE_STD, "map": "auto"})


def banded_layouts(sizes: Sequence[tuple[int, int]], inits: dict[str, float | str]) -> dict[str, Layout]:
    """The layouts of weights that each band has separately, by the prefix of their names."""
    layouts: dict[str, Layout] = {}
    first = 0
    for i, (rows, _) in enumerate(sizes):
        bank = f"{first}-{first + rows}"
        layouts |= {f"{name}{i}.weight": Layout(bank=bank, init=init) for name, init in inits.items()}
        first += rows
    return layouts


def adaptive_log_probs(frequent: Tensor, bands: Tensor, rare: Sequence[Tensor]) -> Tensor:
    """Log-probabilities of all words: that of a rare word is that of its band plus its own in the band.

    A band starts as likely as it has words, so that at first all words are equally likely.

    Args:
        frequent: (..., words) logits of the first band's words.
        bands: (..., bands - 1) logits of the other bands.
        rare: for each of these, (..., words) logits of its words.
    """
    sizes = [math.log(band.shape[-1]) for band in rare]
    first = torch.cat([frequent, bands + bands.new_tensor(sizes)], dim=-1).float().log_softmax(-1)
    words = frequent.shape[-1]
    tails = [band.float().log_softmax(-1) + first[..., words + i, None] for i, band in enumerate(rare)]
    return torch.cat([first[..., :words], *tails], dim=-1)
