"""Units + table -> milliseconds of an architecture, with an interval."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.device import PHASES
from hardware_profiles.price_index import PriceIndex
from hardware_profiles.profile import Calibration, Stored, measured_folder, read_stored, scale
from hardware_profiles.provenance import ProfileWarning, changes
from hardware_profiles.steps import phase_steps, steps_with_reuse
from hardware_profiles.table import PriceRow, PriceTable, UnitWork
from search_spaces.architecture import Architecture
from search_spaces.errors import Command, Fault, InputError
from search_spaces.units import COST_ROLES, Step, Unit

if TYPE_CHECKING:
    from hardware_profiles.regression import Regressor

Floats = NDArray[np.float64]
SUMMED = ("macs", "weight_bytes", "moved_bytes", "kernels")


@dataclass(frozen=True)
class Part:
    """The latency of one step of an architecture."""

    step: Step
    ms: float
    source: str


class LatencyModel:
    """Predicts latencies of one device.

    `estimated` is true where the device was never measured: its numbers come from a specification.
    """

    def __init__(self, stored: Stored, table: PriceTable, name: str = "profile") -> None:
        self.stored, self.table, self.name = stored, table, name
        self.estimated = stored.device.estimated
        self._indexes: dict[str, PriceIndex] = {}
        self._whole = _regressors(stored.whole)

    @classmethod
    def load(cls, profile_or_path: str | Path) -> LatencyModel:
        """A measured profile: a device's name under `runs/profiles`, or the profile's folder. Raises InputError.

        Warns with a ProfileWarning if versions, processor or settings differ from those of the measurement.
        """
        folder = measured_folder(profile_or_path)
        model = cls(read_stored(folder), PriceTable.from_csv(folder / "table.csv"), folder.name)
        for change in changes(model.stored):
            warnings.warn(f"profile {model.name}: {change}", ProfileWarning, stacklevel=2)
        return model

    def predict(self, arch: Architecture, phase: str = "prefill") -> float:
        """Milliseconds of one call: of a whole sequence (`prefill`) or of one more token (`decode`)."""
        return float(self.predict_many([arch], phase)[0])

    def predict_many(self, archs: Sequence[Architecture], phase: str = "prefill") -> Floats:
        """Milliseconds of each architecture.

        Raises:
            InputError: a unit is not in the table; names it and the command to run. A missing unit never counts as 0.
        """
        if phase in self._whole:
            return self._whole[phase].predict(self.features(archs, phase))[0]
        return self._index(phase).latencies_ms(archs)

    def unmeasured_shares(self, archs: Sequence[Architecture], phase: str = "prefill") -> Floats:
        """The share of each predicted latency that is based on interpolated or estimated unit prices.

        1 on a device that is estimated from a specification. 0 if a regression on whole measured models predicts, which
        uses no unit prices.
        """
        if self.estimated or phase in self._whole:
            return np.full(len(archs), float(self.estimated))
        return self._index(phase).unmeasured_shares(archs)

    def interval(self, arch: Architecture, phase: str = "prefill") -> tuple[float, float]:
        """The 95 % confidence interval of the latency, given the uncertainty of the table and the calibration."""
        if phase in self._whole:
            mean, std = self._whole[phase].predict(self.features([arch], phase))
            return max(float(mean[0] - 1.96 * std[0]), 0.0), float(mean[0] + 1.96 * std[0])
        calibration, ms = self.calibration(phase, arch), self.predict(arch, phase)
        units: dict[Unit, float] = {}
        for step, reused in steps_with_reuse(arch, phase):  # the error of a unit that occurs n times counts n times
            row = self.row(step.unit, phase)
            half = scale(calibration, step.unit, reused) * (row.high - row.low) / 2
            units[step.unit] = units.get(step.unit, 0.0) + half
        errors = (1.96 * calibration.error * ms, *units.values())
        half = sum(errors) if self.estimated else math.hypot(*errors)  # a specification errs alike for all units
        return max(ms - half, 0.0), ms + half

    def breakdown(self, arch: Architecture, phase: str = "prefill") -> list[Part]:
        """The time of every step. The sum is the prediction minus the overhead."""
        self._only_table(phase)
        calibration, parts = self.calibration(phase, arch), []
        for step, reused in steps_with_reuse(arch, phase):
            row = self.row(step.unit, phase)
            parts.append(Part(step, scale(calibration, step.unit, reused) * row.ms, row.source))
        return parts

    def sources(self, arch: Architecture, phase: str = "prefill") -> set[str]:
        """The sources of the prices of an architecture."""
        return {self.row(step.unit, phase).source for step in phase_steps(arch, phase)}

    def predict_memory(self, arch: Architecture) -> float:
        """Peak bytes of a call. Raises InputError if the runtime cannot measure memory."""
        known = self.stored.memory
        if known is None:
            raise InputError(self.name, "has no memory measurements; its runtime cannot measure memory")
        weights, moved = self.memory_features(arch)
        return known.base + known.weights * weights + known.moved * moved

    def memory_features(self, arch: Architecture) -> tuple[float, float]:
        """(bytes of the weights, most bytes that one unit moves)."""
        steps = phase_steps(arch, "prefill")
        works = {step.path: self.row(step.unit, "prefill").work for step in steps}
        return sum(work.weight_bytes for work in works.values()), max(work.moved_bytes for work in works.values())

    def features(self, archs: Sequence[Architecture], phase: str) -> Floats:
        """Features of a regression on whole models: per role, the summed work of its units and their number."""
        rows = [self._features(arch, phase) for arch in archs]
        return np.array(rows, dtype=np.float64).reshape(len(archs), len(self.feature_names()))

    def feature_names(self) -> list[str]:
        """The columns of `features`."""
        return [f"{role}.{name}" for role in COST_ROLES for name in ("count", *SUMMED)]

    def _features(self, arch: Architecture, phase: str) -> list[float]:
        sums = {role: dict.fromkeys(("count", *SUMMED), 0.0) for role in COST_ROLES}
        for step in phase_steps(arch, phase):
            work: UnitWork = self.row(step.unit, phase).work
            of = sums[step.unit.cost_role]
            of["count"] += 1
            for name in SUMMED:
                of[name] += getattr(work, name)
        return [value for role in COST_ROLES for value in sums[role].values()]

    def row(self, unit: Unit, phase: str) -> PriceRow:
        """The price of a unit. Raises InputError if it has none."""
        price = self.table.get((phase, unit))
        if price is None:
            raise self.unknown(unit, phase)
        return price

    def calibration(self, phase: str, arch: Architecture) -> Calibration:
        """The calibration of an architecture: that of the first profiled space that contains all its units, else that
        of all spaces.
        """
        return self._index(phase).calibration(arch)

    def _index(self, phase: str) -> PriceIndex:
        if phase not in PHASES:
            raise InputError("phase", f"{phase!r} is not allowed; allowed: {', '.join(PHASES)}")
        if phase not in self._indexes:
            self._indexes[phase] = PriceIndex(self.table, self.stored, phase, self.unknown)
        return self._indexes[phase]

    def _only_table(self, phase: str) -> None:
        if phase in self._whole:
            raise InputError(self.name, "was fitted on whole models; it has no latencies of single units")

    def unknown(self, unit: Unit, phase: str) -> InputError:
        """The error of a unit without a price: the nearest one that has a price, and what to profile."""
        if not any(known == phase for known, _ in self.table):
            others = " and ".join(dict.fromkeys(known for known, _ in self.table))
            lacking = f"latencies (only {others})" if others else "latencies"
            remedy = f"run {Command('profile', self.name, phase=phase)}"
            return InputError(self.name, [Fault("", f"has no {phase} {lacking}", remedy)])
        near = [str(other) for known, other in self.table
                if known == phase and (other.role, other.block.kind) == (unit.role, unit.block.kind)]
        near.sort(key=lambda text: sum(a != b for a, b in zip(text.split(", "), str(unit).split(", "))))
        known = f"nearest {near[0]}" if near else f"no {unit.block.kind} was profiled"
        remedy = f"run {Command('profile', self.name)} with a space that contains it"
        return InputError(self.name, [Fault("", f"no {phase} latency for {unit}; {known}", remedy)])


def _regressors(whole: Mapping[str, Any]) -> dict[str, Regressor]:
    if not whole:
        return {}  # most profiles need no scipy, whose import dominates start-up
    from hardware_profiles.regression import Regressor

    return {phase: Regressor.from_dict(data) for phase, data in whole.items()}
