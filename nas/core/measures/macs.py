"""The measure `macs`: multiply-adds of one sequence."""

from __future__ import annotations

from nas.core.costs import count
from nas.core.measures._base import MeasureKind, PriceConditions
from search_spaces import Architecture


class Macs(MeasureKind):
    """Multiply-adds of a sequence of the given length."""

    name, label, of_length, place, summarised = "macs", "multiply-adds", True, 1, True
    superlative = "fewest multiply-adds"

    def price(self, arch: Architecture, at: PriceConditions) -> float:
        return count(arch, at.seq_len).macs


MACS = Macs()
