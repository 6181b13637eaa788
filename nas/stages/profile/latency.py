"""Predict the latency of an architecture on a profiled device, part by part."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from hardware_profiles.latency import LatencyModel
from hardware_profiles.provenance import ProfileWarning, changes
from nas.core import resolve
from nas.core.marks import profile_command
from nas.stages.profile.request import LatencyRequest
from search_spaces import Architecture


@dataclass(frozen=True)
class PredictedLatency:
    """The latency of an architecture.

    Args:
        unmeasured_share: the share of the latency that is based on interpolated or estimated units.
        measure_more: the command that measures more units, where that would help.
        peak_bytes: None if the profile does not predict memory.
        parts: milliseconds by unit, `overhead_ms` beside them; none where only whole models were measured.
    """

    device: str
    arch: Architecture
    phase: str
    ms: float
    interval: tuple[float, float]
    estimated: bool
    unmeasured_share: float
    conditions: dict[str, int]
    warnings: list[str]
    measure_more: str | None
    peak_bytes: float | None
    overhead_ms: float | None
    parts: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Plain data; what is not known is left out."""
        low, high = self.interval
        known = {"device": self.device, "architecture": self.arch.key, "phase": self.phase, "ms": self.ms, "low": low,
                 "high": high, "estimated": self.estimated, "unmeasured_share": self.unmeasured_share,
                 "conditions": self.conditions, "warnings": self.warnings}
        optional = {"measure_more": self.measure_more, "peak_bytes": self.peak_bytes, "overhead_ms": self.overhead_ms,
                    "parts": self.parts or None}
        return known | {name: value for name, value in optional.items() if value is not None}


def predict_latency(request: LatencyRequest) -> PredictedLatency:
    """The predicted latency. Raises InputError if the device is not profiled or has no price for a unit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProfileWarning)  # they are part of the result
        model = LatencyModel.load(request.device)
    arch, phase = resolve.pick(resolve.resolve(request.arch), request.sample, False, False)[0].arch, request.phase
    share = float(model.unmeasured_shares([arch], phase)[0])
    by_unit = phase not in model.stored.whole
    return PredictedLatency(
        device=model.stored.device.name, arch=arch, phase=phase, ms=model.predict(arch, phase),
        interval=model.interval(arch, phase), estimated=model.estimated, unmeasured_share=share,
        conditions=model.stored.conditions.model_dump(), warnings=changes(model.stored),
        measure_more=profile_command(request.device, phase) if share and not model.estimated else None,
        peak_bytes=model.predict_memory(arch) if model.stored.memory is not None else None,
        overhead_ms=model.calibration(phase, arch).overhead_ms if by_unit else None,
        parts=[{"layer": part.step.layer, "path": part.step.path, "unit": str(part.step.unit), "ms": part.ms,
                "source": part.source} for part in model.breakdown(arch, phase)] if by_unit else [])
