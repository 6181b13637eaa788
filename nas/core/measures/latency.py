"""The measure `latency:DEVICE[:PHASE]`: milliseconds on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hardware_profiles.device import PHASES
from nas.core.measures._base import TIME, Floats, MeasureKind, PriceConditions
from nas.core.measures._value import Measure
from search_spaces import Architecture

if TYPE_CHECKING:
    from hardware_profiles import LatencyModel


class Latency(MeasureKind):
    """Milliseconds, looked up in the table of a profile; all architectures at once."""

    name, label, unit, units, prefixes, decimals = "latency", "latency", "ms", TIME, False, 3
    on_device, phases, partly_unmeasured, superlative = True, PHASES, True, "fastest"

    def price(self, arch: Architecture, at: PriceConditions) -> float:
        return float(self.price_many([arch], at)[0])

    def price_many(self, archs: Sequence[Architecture], at: PriceConditions) -> Floats:
        return at.profile.predict_many(archs, at.phase)

    def unmeasured_shares(self, archs: Sequence[Architecture], at: PriceConditions) -> Floats:
        return at.profile.unmeasured_shares(archs, at.phase)

    def known_phases(self, device: LatencyModel) -> Sequence[str]:
        known = {phase for phase, _ in device.table} | set(device.stored.whole)
        return [phase for phase in PHASES if phase in known]

    def show(self, value: float) -> str:
        return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.4g} s"


LATENCY = Latency()


def latency_on(device: str, phase: str = "prefill") -> Measure:
    """The latency on a device, which `nas measure` measures and a profile predicts."""
    return Measure(LATENCY.name, device, phase)
