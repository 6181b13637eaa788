"""Checks whether a device is as fast as when it was profiled, by timing known models again.

Clocks, heat and neighbours change a machine's speed from one hour to the next, so a latency measured now may not be
comparable. The known models, timed among the others, show the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from hardware_profiles.calibration import MeasuredModel
from hardware_profiles.protocol import Timing
from nas.core.timing.workloads import Workload

KNOWN = 8
"""Number of models that are timed again."""


def known_models(measured: Sequence[MeasuredModel], phase: str, space: str) -> list[MeasuredModel]:
    """A few of a space's measured models, from the fastest to the slowest; none where no whole model was measured."""
    mine = [model for model in measured if (model.phase, model.space) == (phase, space)]
    ordered = sorted(mine, key=lambda model: model.ms)
    if len(ordered) <= KNOWN:
        return ordered
    return [ordered[round(i * (len(ordered) - 1) / (KNOWN - 1))] for i in range(KNOWN)]


def slowdown(known: Sequence[MeasuredModel], timings: Mapping[str, Timing]) -> float:
    """Median slowdown of the known models; 1 if there are none."""
    ratios = [timings[Workload(model.phase, model.arch).name].ms / model.ms for model in known]
    return median(ratios) if ratios else 1.0
