"""Selects the workloads of a phase: as many as there is time to compile and measure."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np

from hardware_profiles.device import Device
from hardware_profiles.table import UnitWork
from nas.core.timing.session import Bench
from nas.core.timing.workloads import Workload
from nas.stages.profile.choice import model_macs, n_ends, spread_order
from nas.stages.profile.prices import empty_for
from search_spaces import Architecture
from search_spaces.units import Unit

KERNEL_S = 1e-5
"""Rough seconds per kernel; decides only how many units are attempted."""
RUNS = 2.5
"""Runs of a workload in one round, including warm-up and reference runs."""
TIMING_SHARE = 0.35
"""Share of the time after compiling the minimum that is reserved for timing."""
LATE_ROUNDS = 4
"""Minimum rounds if the budget is used up."""
LEAST_MODELS, LEAST_UNITS = 8, 12
"""Whole models and units that every profile needs: fewer do not show that times depend on the architecture."""
PILOT = 6
"""Workloads that are compiled before the plan is made; the first of every process also imports libraries."""
UNITS_PER_MODEL = 3
"""Units to add per additional whole model."""


@dataclass
class Selection:
    """The workloads of one phase, the most important ones first.

    Args:
        works: what every unit of the space does.
        new: the units without a measured price.
        models: the whole models that calibrate, the two ends of the space first.
        begun: units that an earlier call has begun to time.
    """

    bench: Bench
    phase: str
    works: Mapping[Unit, UnitWork]
    new: Collection[Unit]
    models: Sequence[Architecture]
    begun: Sequence[Unit]
    must: list[Workload] = field(init=False)
    """Required workloads of this space; empty ones last, because the time of the first ones predicts the rest."""
    ready: list[Workload] = field(default_factory=list)
    """Compiled workloads."""

    def __post_init__(self) -> None:
        device = self.bench.device
        new = {unit: self.works[unit] for unit in self.works if unit in set(self.new)}
        self.units = [Workload(self.phase, unit, device.timing.copies) for unit in spread_order(new, self.begun)]
        self.wholes = [Workload(self.phase, arch) for arch in self.models]
        self.n_units = min(max(n_ends(new, self.begun), LEAST_UNITS), len(self.units)) if new else 0
        empties = dict.fromkeys(empty_for(unit, self.phase) for unit in new)
        pairs = zip_longest(self.wholes[:LEAST_MODELS], self.units[: self.n_units])
        self.must = [*(workload for pair in pairs for workload in pair if workload is not None), *empties]

    def known_units(self) -> list[Unit]:
        """The units that have a measured price."""
        new = set(self.new)
        return [unit for unit in self.works if unit not in new]

    def ready_units(self) -> list[Unit]:
        """The units of compiled workloads."""
        return [workload.what for workload in self.ready if isinstance(workload.what, Unit)]

    def optional(self, timing_s: float) -> list[Workload]:
        """More units and whole models alternately, limited by the time for timing."""
        device = self.bench.device
        macs = [model_macs(arch, self.phase, self.works) for arch in self.models]
        single = [workload.what for workload in self.units if isinstance(workload.what, Unit)]
        n = affordable(device, {unit: self.works[unit] for unit in single}, macs, timing_s, device.timing.copies)
        units, wholes = self.units[self.n_units : max(n, self.n_units)], self.wholes[LEAST_MODELS:]
        workloads: list[Workload] = []
        for i in range(max(len(wholes), -(-len(units) // UNITS_PER_MODEL))):
            workloads += [*wholes[i : i + 1], *units[UNITS_PER_MODEL * i : UNITS_PER_MODEL * (i + 1)]]
        return workloads

    def prepare(self, workloads: Sequence[Workload], until: float, least: int = 0) -> None:
        """Compile more of the workloads; see `Bench.prepare`."""
        ready = self.bench.prepare(workloads, until, least)
        self.ready = list(dict.fromkeys((*self.ready, *ready)))

    def prepare_rest(self, end: float, earlier: Collection[str] | None) -> None:
        """Compile what there is time for until the end of the phase, or exactly what an earlier call has chosen."""
        left = max(end - time.monotonic(), 0.0)
        if earlier is not None:
            again = [workload for workload in (*self.units, *self.wholes) if workload.name in set(earlier)]
            self.prepare(again, end, len(again))
        else:
            optional = self.optional(TIMING_SHARE * left)
            if optional:
                self.prepare(optional, time.monotonic() + (1 - TIMING_SHARE) * left)

    def least_timing_s(self) -> float:
        """Seconds of the fewest rounds, roughly."""
        device = self.bench.device
        speed, copies, samples = device.rough_macs_per_s, device.timing.copies, device.timing.whole_samples
        models = sum(model_macs(arch, self.phase, self.works) for arch in self.models[:LEAST_MODELS]) / speed
        units = sum(_unit_s(self.works[workload.what], speed) for workload in self.units[: self.n_units]
                    if isinstance(workload.what, Unit))
        return RUNS * LATE_ROUNDS * (samples * models + copies * units)


def reference_workload(phase: str, models: Sequence[Architecture], works: Mapping[Unit, UnitWork]) -> Workload:
    """The whole model of median size among those that are always timed."""
    size = {Workload(phase, arch): model_macs(arch, phase, works) for arch in models[:LEAST_MODELS]}
    return sorted(size, key=lambda whole: size[whole])[len(size) // 2]


def affordable(device: Device, works: Mapping[Unit, UnitWork], model_macs: Sequence[float], budget_s: float,
               copies: int) -> int:
    """How many units the minimum number of rounds has time for, besides the whole models."""
    speed, rounds = device.rough_macs_per_s, device.timing.least_rounds
    spent = RUNS * rounds * device.timing.whole_samples * sum(macs / speed for macs in model_macs)
    seconds = [copies * _unit_s(work, speed) for work in works.values()]
    return max(int((budget_s - spent) / (RUNS * rounds * float(np.mean(seconds or [1.0])))), LEAST_UNITS)


def _unit_s(work: UnitWork, speed: float) -> float:
    return work.macs / speed + work.kernels * KERNEL_S
