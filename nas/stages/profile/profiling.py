"""A device and a space -> the folder of a measured profile."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from hardware_profiles.calibration import MeasuredModel, calibrated, from_csv, to_csv
from hardware_profiles.device import Device
from hardware_profiles.latency import LatencyModel
from hardware_profiles.plausibility import check_dependence
from hardware_profiles.profile import Conditions, Stored, read_stored
from hardware_profiles.protocol import Timing
from hardware_profiles.provenance import today
from hardware_profiles.steps import phase_steps
from hardware_profiles.table import PriceTable, UnitWork
from nas.core.progress import StageProgress
from nas.core.run_dir import write_text
from nas.core.timing.session import Bench
from nas.core.timing.workloads import Workload
from nas.stages.profile import prices
from nas.stages.profile.budget import Budget, PhaseTime
from nas.stages.profile.choice import calibration_models, units_of
from nas.stages.profile.memory import Peaks, fit_memory, measurable
from nas.stages.profile.selection import LATE_ROUNDS, LEAST_MODELS, PILOT, Selection, reference_workload
from nas.stages.profile.work import unit_works
from search_spaces import Architecture, InputError, SearchSpace
from search_spaces.errors import Option
from search_spaces.units import Unit

MEMORY_SHARE = 0.1
"""Share of the budget after which no more peak memory is measured."""
SHARES = {"prefill": 0.75, "decode": 0.25}
"""Shares of the budget if both phases are timed."""
END_S = 1.5
"""Seconds for fitting and writing."""


@dataclass(frozen=True)
class PhaseProfile:
    """Result of profiling one phase.

    Args:
        n_measured: units that were timed in this call.
        n_reused: units whose times were known before, from this space or another.
        compiling_s: of everything before timing, in this call: compiling, loading, peak memory.
        timing_s: of this call.
    """

    phase: str
    n_units: int
    n_measured: int
    n_reused: int
    compiling_s: float
    timing_s: float
    error: float
    not_delegated: float | None
    n_models: int = 0
    """Whole models that were timed to calibrate the sum of units."""


@dataclass
class Profiling:
    """Profiles one device for one space, in a folder that keeps everything measured.

    Raises:
        InputError: the folder contains a profile of other conditions or another device.
    """

    device: Device
    space: SearchSpace
    out: Path
    progress: StageProgress = field(default_factory=StageProgress)
    space_name: str = ""
    """The user's name of the space: its path for a file."""

    def __post_init__(self) -> None:
        self.started = time.monotonic()
        self.space_name = self.space_name or self.space.name
        self.conditions = conditions_of(self.device, self.space)
        self.stored = Stored(device=self.device, conditions=self.conditions)
        self.table, self.measured = PriceTable(), list[MeasuredModel]()
        if (self.out / "profile.yaml").is_file():
            self.stored = read_stored(self.out)
            self.table = PriceTable.from_csv(self.out / "table.csv")
            self.measured = from_csv(self.out / "models.csv")
            self._check_same()

    def _check_same(self) -> None:
        """Raises InputError if the existing profile has other conditions."""
        before, now = self.stored.conditions.model_dump(), self.conditions.model_dump()
        names = ("name", "runtime", "threads", "precision", "options", "transport")
        before |= {name: getattr(self.stored.device, name) for name in names}
        now |= {name: getattr(self.device, name) for name in names}
        now |= today(self.device)
        before |= {name: self.stored.recorded.get(name, value) for name, value in today(self.device).items()}
        other = [f"{name} {before[name]} (now {now[name]})" for name in before if before[name] != now[name]]
        if other:
            raise InputError(str(self.out), f"was measured at {', '.join(other)}; give another folder with "
                                            f"{Option('out')}")

    def run(self, phases: Sequence[str], budget_s: float, extend: bool = False) -> list[PhaseProfile]:
        """Profile phases and write the folder after each.

        Args:
            budget_s: seconds for everything since this object was made, compiling included; earlier calls count too.
            extend: whether a budget below the minimum of a profile is extended to it.

        Raises:
            InputError: the budget is below the minimum of a profile, and is not extended.
        """
        if self.device.estimated:
            return [self._estimate(phase) for phase in phases]
        bench = self.bench()
        budget = Budget(budget_s, bench.folder / f"budget-{self.space.name}.json", bench.identity(self.space.name),
                        self.started)
        results: list[PhaseProfile] = []
        try:
            for i, phase in enumerate(phases):
                rest = sum(SHARES[later] for later in phases[i:])
                at = PhaseTime(budget, SHARES[phase] / rest, len(phases) - i, may_refuse=not (extend or results))
                results.append(self._measure(at, phase, self.works(phase)))
                self._write()
        finally:
            budget.save()
        return results

    def _estimate(self, phase: str) -> PhaseProfile:
        works = self.works(phase)
        self.table = self.table.with_rows(prices.estimated_rows(self.device, works, phase))
        self._write()
        return PhaseProfile(phase, len(works), 0, 0, 0.0, 0.0, prices.ESTIMATE_SPREAD, None)

    def works(self, phase: str) -> dict[Unit, UnitWork]:
        """What each unit of the space does in a phase."""
        return unit_works(units_of(self.space, phase), phase, self.conditions)

    def bench(self) -> Bench:
        """The bench of this device."""
        return Bench(self.device, self.conditions, self.out / "work", self.progress)

    def model(self) -> LatencyModel:
        """The current latency model."""
        return LatencyModel(self.stored, self.table, self.device.name)

    def calibration_models(self) -> list[Architecture]:
        """The whole models that calibrate."""
        return calibration_models(self.space, self.device.timing.calibration)

    def _measure(self, at: PhaseTime, phase: str, works: Mapping[Unit, UnitWork]) -> PhaseProfile:
        """Select, compile and time the workloads of a phase; then price the units and calibrate their sum."""
        bench, start, purpose = self.bench(), time.monotonic(), f"{phase}-{self.space.name}"
        bench.tick, models = at.budget.tick, self.calibration_models()
        reference = reference_workload(phase, models, works)
        selected = self._select(bench, phase, works, models, bench.timed(purpose, reference))
        peaks = self._prepare(selected, at)
        at.budget.choose(phase, [workload.name for workload in selected.ready])
        wholes = [workload for workload in selected.ready if isinstance(workload.what, Architecture)]
        compiling_s = time.monotonic() - start
        timing_s = max(at.end - time.monotonic() - END_S - peaks.per_model_s, 0.0) + bench.rounds_s(purpose, reference)
        timings = bench.time(selected.ready, reference, timing_s, purpose, late_rounds=LATE_ROUNDS,
                             often={whole.name: self.device.timing.whole_samples for whole in wholes})
        measured = [MeasuredModel(phase, self.space.name, whole.what, timings[whole.name].ms) for whole in wholes
                    if isinstance(whole.what, Architecture)]
        self._check_dependence(phase, measured, works)
        self._price(selected, timings)
        self._keep(phase, bench, measured)
        if peaks.archs:
            self.stored = self.stored.model_copy(update={"memory": fit_memory(self.model(), peaks)})
        return self._result(selected, wholes, compiling_s)

    def _select(self, bench: Bench, phase: str, works: Mapping[Unit, UnitWork], models: Sequence[Architecture],
                timed: Collection[str]) -> Selection:
        """The workloads of units without a measured price, and of those that an earlier call has begun to time."""
        copies = self.device.timing.copies
        begun = [unit for unit in works if Workload(phase, unit, copies).name in timed]  # resumed with any budget
        measured = {unit for unit in works if self.table.is_measured(phase, unit)}.difference(begun)
        return Selection(bench, phase, works, [unit for unit in works if unit not in measured], models, begun)

    def _price(self, selected: Selection, timings: Mapping[str, Timing]) -> None:
        """Add the prices of all units to the table, interpolated ones included. Raises InputError."""
        phase, works, chosen = selected.phase, selected.works, selected.ready_units()
        rows = prices.measured_rows(timings, chosen, works, phase, self.device.timing.copies)
        if 2 * len(rows) < len(chosen):
            raise InputError(self.device.name, f"{len(chosen) - len(rows)} of {len(chosen)} stacks take no longer than "
                                               "an empty call; check that the device runs the given models")
        known = rows + [self.table[phase, unit] for unit in selected.known_units()]
        rows += prices.interpolated_rows(known, works, phase)
        self.table = self.table.with_rows(rows).with_space(phase, works, self.space.name)

    def _result(self, selected: Selection, wholes: Sequence[Workload], compiling_s: float) -> PhaseProfile:
        bench, phase = selected.bench, selected.phase
        shares = [bench.compiled[whole.name].facts["not_delegated"] for whole in wholes
                  if "not_delegated" in getattr(bench.compiled.get(whole.name), "facts", {})]
        now = sum(workload.name in bench.sampled for workload in selected.ready if isinstance(workload.what, Unit))
        return PhaseProfile(
            phase, n_units=len(selected.works), n_measured=now,
            n_reused=len(selected.known_units()) + len(selected.ready_units()) - now, compiling_s=compiling_s,
            timing_s=bench.spent_s, error=self.stored.by_space[self.space.name][phase].error,
            not_delegated=float(np.mean(shares)) if shares else None, n_models=len(wholes))

    def _prepare(self, selected: Selection, at: PhaseTime) -> Peaks:
        """Compile as many workloads as time allows, and measure peak memory if unknown.

        Raises:
            InputError: there is not enough time for the minimum.
        """
        bench, peaks = selected.bench, self._peaks(selected)
        with bench:
            least_s = self._least_s(selected, at.end)
            extended = at.check_least(least_s, peaks.least_s, f"{self.device.name} for {self.space.name}")
            if extended:
                self.progress.note(extended)
            self.progress.note(at.plan(selected, least_s, peaks.least_s))
            selected.prepare(selected.must, at.end, len(selected.must))
            peaks.measure(MEMORY_SHARE * at.budget.seconds)
            selected.prepare_rest(at.end - END_S - peaks.per_model_s, at.budget.earlier(selected.phase))
        return peaks

    def _peaks(self, selected: Selection) -> Peaks:
        """The models whose peak memory is measured; none if it is known or cannot be measured."""
        wanted = selected.phase == "prefill" and self.device.timing.memory and not self.stored.memory
        return Peaks(selected.bench, selected.wholes[: LEAST_MODELS if wanted and measurable(selected.bench) else 0])

    def _least_s(self, selected: Selection, until: float) -> float:
        """Prepare a few workloads; returns the seconds of the remaining minimum of a phase."""
        selected.prepare(selected.must[:PILOT], until, 1)
        return selected.bench.preparing_s(selected.must) + selected.least_timing_s() + END_S

    def least_s(self, phases: Sequence[str], try_s: float) -> float:
        """Seconds that the minimum of a new profile takes here, from preparing workloads for about `try_s` seconds.

        Raises:
            InputError: the runtime cannot run a unit of the space.
        """
        selected = Selection(self.bench(), phases[0], works := self.works(phases[0]), works, self.calibration_models(),
                             ())
        with selected.bench:
            phase_s = self._least_s(selected, time.monotonic() + try_s)
        return time.monotonic() - self.started + len(phases) * phase_s + self._peaks(selected).least_s

    def fitted(self, phase: str, table: PriceTable, regressor: dict[str, Any], archs: Sequence[Architecture]) -> None:
        """Store a regression on whole models and write the profile."""
        self.table = table
        seen = dict.fromkeys((*self.stored.seen, *(arch.key for arch in archs)))
        self.stored = self.stored.model_copy(update={
            "whole": {**self.stored.whole, phase: regressor}, "recorded": {"date": str(date.today())},
            "spaces": self._spaces(), "seen": tuple(seen)})
        self._write()

    def _check_dependence(self, phase: str, measured: Sequence[MeasuredModel], works: Mapping[Unit, UnitWork]) -> None:
        """Raises InputError if latencies do not depend on the model."""
        features = []
        for model in measured:
            steps = [works[step.unit] for step in phase_steps(model.arch, phase)]
            features.append([sum(work.macs for work in steps), sum(work.moved_bytes for work in steps), len(steps)])
        check_dependence(self.device.name, np.array(features), np.array([model.ms for model in measured]))

    def _keep(self, phase: str, bench: Bench, models: Sequence[MeasuredModel]) -> None:
        recorded = {"torch": version("torch"), **bench.header.get("versions", {}), **bench.header.get("machine", {}),
                    "date": str(date.today())}
        seen = dict.fromkeys((*self.stored.seen, *(model.arch.key for model in models)))
        whole = {name: fit for name, fit in self.stored.whole.items() if name != phase}
        self.measured = [model for model in self.measured if (model.phase, model.space) != (phase, self.space.name)]
        self.measured += models
        stored = self.stored.model_copy(update={"device": self.device, "recorded": recorded, "spaces": self._spaces(),
                                                "whole": whole, "seen": tuple(seen)})
        self.stored = calibrated(stored, self.table, self.measured, phase)

    def _spaces(self) -> tuple[str, ...]:
        """The spaces priced so far, this one last."""
        return (*(name for name in self.stored.spaces if name != self.space_name), self.space_name)

    def _write(self) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        write_text(self.out / "table.csv", self.table.to_csv())
        if self.measured:
            write_text(self.out / "models.csv", to_csv(self.measured))
        write_text(self.out / "profile.yaml", self.stored.to_yaml())


def conditions_of(device: Device, space: SearchSpace) -> Conditions:
    """The measurement conditions. Raises InputError if the device file exceeds the context of the space."""
    length = device.length or space.context
    past = device.past or max(length // 2, 1)
    for name, value in (("length", length), ("past", past + 1)):
        if value > space.context:
            raise InputError(device.name, f"{name} {value} is more than the context {space.context} of {space.name}")
    return Conditions(batch=device.batch, length=length, past=past)
