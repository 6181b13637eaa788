"""Units + table -> milliseconds of an architecture, with an interval."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.device import PHASES
from hardware_profiles.profile import Calibration, Stored, measured_folder, read_stored, scale
from hardware_profiles.provenance import ProfileWarning, changes
from hardware_profiles.table import PriceRow, PriceTable, UnitWork
from search_spaces.architecture import Architecture
from search_spaces.block import BlockConfig
from search_spaces.errors import Command, Fault, InputError
from search_spaces.units import LENGTHS, Step, Unit, plan

if TYPE_CHECKING:
    from hardware_profiles.regression import Regressor

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
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
        self._books: dict[str, _Book] = {}
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
        return self._book(phase).add_up(archs)

    def unmeasured_shares(self, archs: Sequence[Architecture], phase: str = "prefill") -> Floats:
        """The share of each predicted latency that is based on interpolated or estimated unit prices.

        1 on a device that is estimated from a specification. 0 if a regression on whole measured models predicts, which
        uses no unit prices.
        """
        if self.estimated or phase in self._whole:
            return np.full(len(archs), float(self.estimated))
        return self._book(phase).unmeasured_shares(archs)

    def interval(self, arch: Architecture, phase: str = "prefill") -> tuple[float, float]:
        """The 95 % confidence interval of the latency, given the uncertainty of the table and the calibration."""
        if phase in self._whole:
            mean, std = self._whole[phase].predict(self.features([arch], phase))
            return max(float(mean[0] - 1.96 * std[0]), 0.0), float(mean[0] + 1.96 * std[0])
        calibration, ms = self.calibration(phase, arch), self.predict(arch, phase)
        units: dict[Unit, float] = {}
        for step, again in uses(arch, phase):  # the error of a unit that occurs n times counts n times
            row = self.row(step.unit, phase)
            half = scale(calibration, step.unit, again) * (row.high - row.low) / 2
            units[step.unit] = units.get(step.unit, 0.0) + half
        errors = (1.96 * calibration.error * ms, *units.values())
        half = sum(errors) if self.estimated else math.hypot(*errors)  # a specification errs alike for all units
        return max(ms - half, 0.0), ms + half

    def breakdown(self, arch: Architecture, phase: str = "prefill") -> list[Part]:
        """The time of every step. The sum is the prediction minus the overhead."""
        self._only_table(phase)
        calibration, parts = self.calibration(phase, arch), []
        for step, again in uses(arch, phase):
            row = self.row(step.unit, phase)
            parts.append(Part(step, scale(calibration, step.unit, again) * row.ms, row.source))
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
        return [f"{role}.{name}" for role in ROLES for name in ("count", *SUMMED)]

    def _features(self, arch: Architecture, phase: str) -> list[float]:
        sums = {role: dict.fromkeys(("count", *SUMMED), 0.0) for role in ROLES}
        for step in phase_steps(arch, phase):
            work: UnitWork = self.row(step.unit, phase).work
            of = sums["norm" if step.role in LENGTHS else step.role]  # a separate column would invalidate stored fits
            of["count"] += 1
            for name in SUMMED:
                of[name] += getattr(work, name)
        return [value for role in ROLES for value in sums[role].values()]

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
        book = self._book(phase)
        return book.calibrations[int(book.chosen(*book.flat([arch]))[0])]

    def _book(self, phase: str) -> _Book:
        if phase not in PHASES:
            raise InputError("phase", f"{phase!r} is not allowed; allowed: {', '.join(PHASES)}")
        if phase not in self._books:
            self._books[phase] = _Book(self, phase)
        return self._books[phase]

    def _only_table(self, phase: str) -> None:
        if phase in self._whole:
            raise InputError(self.name, "was fitted on whole models; it has no latencies of single units")

    def unknown(self, unit: Unit, phase: str) -> InputError:
        """The error of a unit without a price: the nearest one that has a price, and what to profile."""
        if not any(known == phase for known, _ in self.table):
            remedy = f"run {Command('profile', self.name, phase=phase)}"
            return InputError(self.name, [Fault("", f"has no {phase} latencies", remedy)])
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


ROLES = ("embedding", "mixer", "cross", "ffn", "norm", "head")
_ENDS = attrgetter(*(field.name for field in fields(Architecture) if field.name not in ("encoder", "decoder")))
"""Fields of an architecture that units outside the layers depend on."""
_AROUND = attrgetter(*(field.name for field in fields(Architecture)
                       if field.name not in ("encoder", "decoder", "embedding", "head")))
"""Fields of an architecture, besides the layer, that the units of a layer depend on."""


class _Book:
    """Fast price look-up of architectures, cached by object identity.

    Architectures of a space share their block objects, so a look-up compares a few addresses. Prices are stored once
    per calibration: those of the profiled spaces, then the one of all spaces.
    """

    def __init__(self, model: LatencyModel, phase: str) -> None:
        self.model, self.phase, stored = model, phase, model.stored
        spaces = [name for name, known in stored.by_space.items() if phase in known]
        self.calibrations = [*(stored.by_space[name][phase] for name in spaces),
                             stored.calibration.get(phase, Calibration())]
        units = [unit for known, unit in model.table if known == phase]
        rows = [model.table[phase, unit] for unit in units]
        self.index = {unit: i for i, unit in enumerate(units)}
        self.overheads = np.array([calibration.overhead_ms for calibration in self.calibrations])
        self.prices = np.array([[scale(calibration, row.unit, again) * row.ms for again in (False, True)
                                 for row in rows] for calibration in self.calibrations])
        self.unmeasured = np.array(2 * [row.source != "measured" for row in rows], dtype=bool)
        self.has = np.array([2 * [name in row.spaces for row in rows] for name in spaces], dtype=bool)
        self.places_of: dict[Any, dict[int, tuple[BlockConfig, int]]] = {}
        self.ends_of: dict[Any, list[int]] = {}

    def add_up(self, archs: Sequence[Architecture]) -> Floats:
        """Milliseconds of each architecture."""
        return self._sums(archs)[0]

    def unmeasured_shares(self, archs: Sequence[Architecture]) -> Floats:
        """The share of each sum that comes from prices that were not measured."""
        total, unmeasured = self._sums(archs)
        return np.divide(unmeasured, total, out=np.zeros_like(total), where=total > 0)

    def _sums(self, archs: Sequence[Architecture]) -> tuple[Floats, Floats]:
        """Milliseconds of each architecture, and those of its units that were not measured."""
        if not archs:
            return np.zeros(0), np.zeros(0)
        places, ends = self.flat(archs)
        chosen = self.chosen(places, ends)
        prices = self.prices[np.repeat(chosen, np.diff(ends)), places]
        unmeasured = np.add.reduceat(np.where(self.unmeasured[places], prices, 0.0), ends[:-1])
        return self.overheads[chosen] + np.add.reduceat(prices, ends[:-1]), unmeasured

    def flat(self, archs: Sequence[Architecture]) -> tuple[Places, Places]:
        """The price indices of all architectures, concatenated, and the offsets of each."""
        rows = [self.places(arch) for arch in archs]
        ends = np.cumsum([0, *map(len, rows)])
        return np.fromiter(chain.from_iterable(rows), dtype=np.intp, count=int(ends[-1])), ends

    def chosen(self, places: Places, ends: Places) -> Places:
        """The calibration of each architecture: that of the first space that contains all its units, or the last
        one."""
        if not len(self.has):
            return np.zeros(len(ends) - 1, dtype=np.intp)
        whole = np.logical_and.reduceat(self.has[:, places], ends[:-1], axis=1)
        return np.where(whole.any(axis=0), whole.argmax(axis=0), len(self.has))

    def places(self, arch: Architecture) -> list[int]:
        """The indices of the prices of an architecture's steps."""
        if any(layer.between is not None for layers in arch.stacks.values() for layer in layers):
            return [self._place(step.unit) + again * len(self.index) for step, again in uses(arch, self.phase)]
        ends = _ENDS(arch)
        positions = self.ends_of.get(ends)
        if positions is None:
            steps = phase_steps(arch, self.phase)
            positions = self.ends_of[ends] = [self._place(step.unit) for step in steps if step.layer < 0]
        places, around = positions.copy(), _AROUND(arch)
        for stack in ("encoder", "decoder") if self.phase == "prefill" else ("decoder",):
            layers = getattr(arch, stack)
            if not layers:
                continue
            known = self.places_of.setdefault((around, stack), {})
            mixers, ffns, again = set[int](), set[int](), len(self.index)  # prices of reused weights come after
            try:
                for layer in layers:
                    offset = again if layer.mixer_slot in mixers else 0
                    places.append(known[id(layer.mixer)][1] + offset)
                    if layer.cross is not None:
                        places.append(known[id(layer.cross)][1] + offset)
                    places.append(known[id(layer.ffn)][1] + (again if layer.ffn_slot in ffns else 0))
                    mixers.add(layer.mixer_slot)
                    ffns.add(layer.ffn_slot)
            except KeyError:
                self._learn(arch, stack, known)
                return self.places(arch)
        return places

    def _learn(self, arch: Architecture, stack: str, known: dict[int, tuple[BlockConfig, int]]) -> None:
        for step in phase_steps(arch, self.phase):
            if step.stack == stack and step.layer >= 0:
                block = {role: block for role, block, _ in getattr(arch, stack)[step.layer].parts()}[step.unit.role]
                known[id(block)] = (block, self._place(step.unit))  # keeps the block, so its address stays unique

    def _place(self, unit: Unit) -> int:
        position = self.index.get(unit)
        if position is None:
            raise self.model.unknown(unit, self.phase)
        return position


def uses(arch: Architecture, phase: str) -> list[tuple[Step, bool]]:
    """The steps a phase runs, and whether an earlier layer has used the same weights."""
    seen: set[str] = set()
    pairs = []
    for step in phase_steps(arch, phase):
        pairs.append((step, step.layer >= 0 and step.path in seen))
        seen.add(step.path)
    return pairs


def phase_steps(arch: Architecture, phase: str) -> tuple[Step, ...]:
    """The steps a phase runs: all of them, or the decoder's for one more token. Raises InputError."""
    if phase == "prefill":
        return plan(arch)
    if arch.family == "encoder":
        raise InputError("phase", "an encoder does not decode; allowed: prefill")
    return tuple(step for step in plan(arch) if step.stack == "decoder")
