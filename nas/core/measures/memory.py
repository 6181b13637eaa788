"""The measure `memory:DEVICE`: the peak memory of a model on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nas.core.measures._base import BYTES, MeasureKind, PriceConditions
from search_spaces import Architecture

if TYPE_CHECKING:
    from hardware_profiles import LatencyModel


class PeakMemory(MeasureKind):
    """Bytes at the peak, predicted by a profile that measured it."""

    name, label, unit, units, on_device = "memory", "peak memory", "B", BYTES, True

    def price(self, arch: Architecture, at: PriceConditions) -> float:
        return at.profile.predict_memory(arch)

    def known_phases(self, device: LatencyModel) -> Sequence[str]:
        return () if device.stored.memory is None else ("prefill",)


MEMORY = PeakMemory()
