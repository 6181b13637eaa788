"""The measure `params`: learned numbers, shared ones once."""

from __future__ import annotations

from nas.core.costs import count_params
from nas.core.measures._base import MeasureKind, PriceConditions
from search_spaces import Architecture


class Params(MeasureKind):
    """Learned numbers; counting them needs no tracing."""

    name, label, place, summarised = "params", "parameters", 0, True

    def price(self, arch: Architecture, at: PriceConditions) -> float:
        return count_params(arch)


PARAMS = Params()
