"""The stage `nas profile`: a device and a space -> the folder of a measured profile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.calibration import Measured, calibrated, from_csv, to_csv
from hardware_profiles.latency import LatencyModel, phase_steps
from hardware_profiles.profile import Device
from hardware_profiles.provenance import today
from hardware_profiles.sanity import check_dependence
from hardware_profiles.stored import Conditions, Stored, read_stored
from hardware_profiles.table import Table, Work
from nas.profiling import prices
from nas.profiling.choice import calibration_models, model_macs, spread_units, units_of
from nas.profiling.memory import fit_memory
from nas.profiling.timing import Bench, Stop, Watching
from nas.profiling.work import unit_works
from nas.profiling.workloads import Workload
from nas.run_dir import write_text
from search_spaces import Architecture, InputError, SearchSpace
from search_spaces.units import Unit

SPEED = {"cpu": 8e9, "mobile-cpu": 2e9, "gpu": 5e11}
KERNEL_S = 1e-5
"""Multiply-adds a second and seconds a kernel, roughly: they decide only how many units are tried."""
RUNS = 2.5
"""Runs of a workload in one round, the warming one and the references among them."""
MEMORY_MODELS = 8
"""Whole models whose peak memory is measured, each in a process of its own."""
SHARES = {"prefill": 0.75, "decode": 0.25}
"""Of the budget, where both phases are timed."""


@dataclass(frozen=True)
class Profiled:
    """What profiling one phase gave.

    Args:
        n_measured: units that were timed in this call.
        n_reused: units whose times were known before, from this space or another.
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


@dataclass
class Profiling:
    """Profiles one device for one space, in a folder that keeps everything measured.

    Raises:
        InputError: the folder holds a profile of other conditions or another device.
    """

    device: Device
    space: SearchSpace
    out: Path
    watching: Watching = field(default_factory=Watching)
    stop: Stop = lambda: False
    space_name: str = ""
    """How the user named the space: of a file its path."""

    def __post_init__(self) -> None:
        self.space_name = self.space_name or self.space.name
        self.conditions = conditions_of(self.device, self.space)
        self.stored = Stored(device=self.device, conditions=self.conditions)
        self.table, self.measured = Table(), list[Measured]()
        if (self.out / "profile.yaml").is_file():
            self.stored = read_stored(self.out)
            self.table = Table.from_csv(self.out / "table.csv")
            self.measured = from_csv(self.out / "models.csv")
            self._check_same()

    def _check_same(self) -> None:
        """Prices of other conditions cannot stand in one table."""
        before, now = self.stored.conditions.model_dump(), self.conditions.model_dump()
        names = ("name", "runtime", "threads", "precision", "options", "transport")
        before |= {name: getattr(self.stored.device, name) for name in names}
        now |= {name: getattr(self.device, name) for name in names}
        now |= today(self.device)
        before |= {name: self.stored.recorded.get(name, value) for name, value in today(self.device).items()}
        other = [f"{name} {before[name]} (now {now[name]})" for name in before if before[name] != now[name]]
        if other:
            raise InputError(str(self.out), f"was measured at {', '.join(other)}; give another folder with --out")

    def run(self, phases: Sequence[str], budget_s: float) -> list[Profiled]:
        """Profile phases and write the folder after each."""
        found = []
        for phase in phases:
            share = SHARES[phase] if len(phases) > 1 else 1.0
            works = unit_works(units_of(self.space, phase), phase, self.conditions)
            if self.device.estimated:
                self.table = self.table.with_rows(prices.estimated_rows(self.device, works, phase))
                found.append(Profiled(phase, len(works), 0, 0, 0.0, 0.0, prices.ESTIMATE_SPREAD, None))
            else:
                found.append(self._measure(phase, works, share * budget_s))
            self._write()
        if "prefill" in phases and self.device.timing.memory and not self.device.estimated and not self.stored.memory:
            memory = fit_memory(self.bench(), self.model(), self.calibration_models()[:MEMORY_MODELS])
            self.stored = self.stored.model_copy(update={"memory": memory})
            self._write()
        return found

    def bench(self) -> Bench:
        """Where this device's workloads are timed."""
        return Bench(self.device, self.conditions, self.out / "work", self.watching, self.stop)

    def model(self) -> LatencyModel:
        """What is known so far."""
        return LatencyModel(self.stored, self.table, self.device.name)

    def calibration_models(self) -> list[Architecture]:
        """The whole models that calibrate."""
        return calibration_models(self.space, self.device.timing.calibration)

    def _measure(self, phase: str, works: Mapping[Unit, Work], budget_s: float) -> Profiled:
        bench, copies, models = self.bench(), self.device.timing.copies, self.calibration_models()
        wholes, purpose = [Workload(phase, arch) for arch in models], f"{phase}-{self.space.name}"
        reference = _middle(wholes, works, phase)
        start, timed = time.monotonic(), bench.timed(purpose, reference)
        bench.prepare(wholes)
        begun = [unit for unit in works if Workload(phase, unit, copies).name in timed]  # another budget goes on with
        reused = {unit for unit in works if self.table.is_measured(phase, unit)}.difference(begun)
        new = {unit: work for unit, work in works.items() if unit not in reused}
        n = min(affordable(self.device, new, [model_macs(arch, phase, works) for arch in models], budget_s, copies),
                bench.compilable(budget_s))
        chosen = spread_units(new, n, begun) if new else []
        workloads = [Workload(phase, unit, copies) for unit in chosen]
        empties = list(dict.fromkeys(prices.empty_for(unit, phase) for unit in chosen))
        bench.prepare([*workloads, *empties])
        compiling_s = time.monotonic() - start
        timings = bench.time([*workloads, *empties, *wholes], reference, budget_s, purpose,
                             often={whole.name: self.device.timing.whole_samples for whole in wholes})
        ms = np.array([timings[whole.name].ms for whole in wholes])
        self._check_dependence(phase, models, works, ms)
        rows = prices.measured_rows(timings, chosen, works, phase, copies)
        if 2 * len(rows) < len(chosen):
            raise InputError(self.device.name, f"{len(chosen) - len(rows)} of {len(chosen)} stacks take no longer than "
                                               "an empty call; does the device run what it is given?")
        known = rows + [self.table[phase, unit] for unit in reused]
        rows += prices.interpolated_rows(known, works, phase)
        self.table = self.table.with_rows(rows).with_space(phase, works, self.space.name)
        self._keep(phase, bench, [Measured(phase, self.space.name, *each) for each in zip(models, ms.tolist())])
        shares = [bench.compiled[whole.name].facts["not_delegated"] for whole in wholes
                  if "not_delegated" in getattr(bench.compiled.get(whole.name), "facts", {})]
        now = sum(workload.name in bench.sampled for workload in workloads)
        return Profiled(phase, len(works), now, len(reused) + len(chosen) - now, compiling_s, bench.spent_s,
                        self.stored.by_space[self.space.name][phase].error, float(np.mean(shares)) if shares else None)

    def fitted(self, phase: str, table: Table, regressor: dict[str, Any], archs: Sequence[Architecture]) -> None:
        """Take over what whole models said, and write it."""
        self.table = table
        seen = dict.fromkeys((*self.stored.seen, *(arch.key for arch in archs)))
        self.stored = self.stored.model_copy(update={
            "whole": {**self.stored.whole, phase: regressor}, "recorded": {"date": str(date.today())},
            "spaces": self._spaces(), "seen": tuple(seen)})
        self._write()

    def _check_dependence(self, phase: str, models: Sequence[Architecture], works: Mapping[Unit, Work],
                          ms: NDArray[np.float64]) -> None:
        """Raises InputError where whole models take as long whatever they are."""
        steps = [[works[step.unit] for step in phase_steps(arch, phase)] for arch in models]
        features = np.array([[sum(work.macs for work in each), sum(work.moved_bytes for work in each), len(each)]
                             for each in steps])
        check_dependence(self.device.name, features, ms)

    def _keep(self, phase: str, bench: Bench, models: Sequence[Measured]) -> None:
        recorded = {"torch": version("torch"), **bench.header.get("versions", {}), **bench.header.get("machine", {}),
                    "date": str(date.today())}
        seen = dict.fromkeys((*self.stored.seen, *(each.arch.key for each in models)))
        whole = {name: fit for name, fit in self.stored.whole.items() if name != phase}
        self.measured = [each for each in self.measured if (each.phase, each.space) != (phase, self.space.name)]
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
    """What latencies are measured at. Raises InputError where the device's file asks for more than the space has."""
    length = device.length or space.context
    past = device.past or max(length // 2, 1)
    for name, value in (("length", length), ("past", past + 1)):
        if value > space.context:
            raise InputError(device.name, f"{name} {value} is more than the context {space.context} of {space.name}")
    return Conditions(batch=device.batch, length=length, past=past)


def affordable(device: Device, works: Mapping[Unit, Work], model_macs: Sequence[float], budget_s: float,
               copies: int) -> int:
    """How many units the least number of rounds has time for, beside the whole models."""
    speed, rounds = SPEED[device.kind], device.timing.least_rounds
    spent = RUNS * rounds * device.timing.whole_samples * sum(macs / speed for macs in model_macs)
    each = [copies * (work.macs / speed + work.kernels * KERNEL_S) for work in works.values()]
    return max(int((budget_s - spent) / (RUNS * rounds * float(np.mean(each or [1.0])))), 12)


def _middle(wholes: Sequence[Workload], works: Mapping[Unit, Work], phase: str) -> Workload:
    """The whole model of median size: the reference."""
    size = {whole: model_macs(whole.what, phase, works) for whole in wholes if isinstance(whole.what, Architecture)}
    return sorted(size, key=lambda whole: size[whole])[len(size) // 2]
