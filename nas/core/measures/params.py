"""The measure `params`: trainable parameters; shared ones count once."""

from __future__ import annotations

from nas.core.costs import count_params
from nas.core.measures._base import MeasureKind, PriceConditions
from search_spaces import Architecture


class Params(MeasureKind):
    """Trainable parameters; counting them needs no tracing."""

    name, label, place, summarised = "params", "parameters", 0, True
    superlative = "fewest parameters"

    def price(self, arch: Architecture, at: PriceConditions) -> float:
        return count_params(arch)


PARAMS = Params()
