"""Measures whole subnets on a device and compares with the predictions of its profile.

They are timed as the check of a profile times models: in the device's runtime, through its transport, at the conditions
of its profile, alternating with each other and with models that were timed when it was profiled. All times are divided
by the slowdown of those models.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from hardware_profiles.calibration import from_csv
from hardware_profiles.latency import LatencyModel
from hardware_profiles.profile import folder_of, named_folder
from hardware_profiles.protocol import Timing
from hardware_profiles.provenance import ProfileWarning, changes
from hardware_profiles.steps import phase_steps
from nas.core.measures import Measure
from nas.core.measures.latency import latency_on
from nas.core.progress import StageProgress
from nas.core.run_dir import digest, locked
from nas.core.subnet import Measured, Subnet
from nas.core.timing.session import Bench
from nas.core.timing.speed import known_models, slowdown
from nas.core.timing.workloads import Workload
from search_spaces import Architecture, InputError
from search_spaces.errors import Command, with_references
from supernet import Transformer
from supernet.compression.quantised import dequantised
from supernet.pretrained import WEIGHTS

MOST_GAP = 0.10
"""Maximum relative difference between prediction and measurement; if larger, the device should be profiled again."""


@dataclass(frozen=True)
class SubnetWorkload(Workload):
    """The whole model of a subnet, with its own weights.

    Args:
        folder: of the subnet.
        weights: digest of its weights.
    """

    folder: str = ""
    weights: str = ""

    @classmethod
    def of(cls, subnet: Subnet, phase: str) -> SubnetWorkload:
        """The workload of a subnet."""
        return cls(phase, subnet.arch, folder=str(subnet.path.absolute()), weights=digest(subnet.path / WEIGHTS)[:12])

    @property
    def name(self) -> str:
        """A name with architecture and weights."""
        return f"{Workload(self.phase, self.what).name}-{self.weights}"

    def model(self, arch: Architecture) -> Transformer:
        """The plain model of the folder; a compressed one with its dequantised values."""
        return dequantised(Transformer.from_pretrained(self.folder)).float()


@dataclass(frozen=True)
class MeasuredSubnet:
    """The latency of a subnet on a device.

    Args:
        timing: at the speed the device had when it was profiled.
        predicted_ms: None if its profile has no price for a unit; see `warning`.
        unmeasured: the share that is based on interpolated unit latencies.
        warning: a sentence about a problem, if any.
    """

    subnet: Path
    measure: Measure
    predicted_ms: float | None
    timing: Timing
    slowdown: float
    warning: str = ""
    unmeasured: float = 0.0

    @property
    def gap(self) -> float | None:
        """How much longer it takes than predicted."""
        return self.timing.ms / self.predicted_ms - 1 if self.predicted_ms else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"subnet": str(self.subnet), "device": self.measure.device, "phase": self.measure.phase,
                "predicted_ms": self.predicted_ms, "unmeasured_share": self.unmeasured,
                "measured_ms": self.timing.ms, "low": self.timing.low, "high": self.timing.high, "gap": self.gap,
                "slowdown": self.slowdown, "warning": with_references(self.warning)}


def measure(subnets: Sequence[Subnet], device: str, phase: str, budget_s: float,
            progress: StageProgress) -> list[MeasuredSubnet]:
    """Time subnets on a profiled device, all in one session, and write the result into their folders.

    Raises:
        InputError: the device is not profiled or cannot be reached, or a subnet cannot run at its conditions.
        Stopped: the user asked to stop; the same call resumes it.
        Waiting: the user has to carry a file.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProfileWarning)  # they are included in the advice
        model, folder = LatencyModel.load(device), folder_of(device)
    for subnet in subnets:
        _check(subnet, model, phase)
    with locked(folder, "profile"):
        bench = Bench(model.stored.device, model.stored.conditions, folder / "work", progress)
        timings, slower = _timed(subnets, model, phase, budget_s, bench)
    results = [_compared(subnet, model, phase, timing, slower) for subnet, timing in zip(subnets, timings)]
    return [_keep(subnet, _with_advice(result, subnet, model, folder), model, bench.header)
            for subnet, result in zip(subnets, results)]


def _check(subnet: Subnet, model: LatencyModel, phase: str) -> None:
    """Raises InputError if it cannot be timed at the conditions of the profile."""
    at, context = model.stored.conditions, subnet.arch.context
    if model.estimated:
        raise InputError(model.name, "is estimated from a specification; there is no device to measure on")
    phase_steps(subnet.arch, phase)  # says that an encoder does not decode
    needed = at.length if phase == "prefill" else at.past + 1
    if needed > context:
        raise InputError(str(subnet.path), f"has a context of {context}, but {model.name} was profiled at {needed} "
                                           "tokens; profile the device for the subnet's own run, in another folder")


def _timed(subnets: Sequence[Subnet], model: LatencyModel, phase: str, budget_s: float,
           bench: Bench) -> tuple[list[Timing], float]:
    """The timings at the profile's speed, and how much slower the device is now."""
    known = known_models(from_csv(bench.folder.parent / "models.csv"), phase, _space(model, subnets[0].arch, phase))
    again = [Workload(phase, entry.arch) for entry in known]
    wholes = [SubnetWorkload.of(subnet, phase) for subnet in subnets]
    reference = again[len(again) // 2] if again else wholes[0]
    names = "".join(sorted(workload.name for workload in (*wholes, *again)))
    purpose = f"measure-{phase}-{hashlib.sha256(names.encode()).hexdigest()[:12]}"
    bench.prepare([*wholes, *again])
    timed = bench.time([*wholes, *again], reference, budget_s, purpose)
    bench.forget(purpose)
    _clear(bench, wholes)
    slower = slowdown(known, timed)
    timings = [timed[whole.name] for whole in wholes]
    return [Timing(raw.ms / slower, raw.low / slower, raw.high / slower, raw.n) for raw in timings], slower


def _clear(bench: Bench, wholes: Sequence[Workload]) -> None:
    """Delete compiled files of the subnets' weights, which are not needed again."""
    for whole in wholes:
        if whole.name in bench.compiled:
            path = bench.folder / bench.compiled[whole.name].model.file
            for file in path.parent.glob(f"{path.stem}.*"):
                file.unlink()


def _space(model: LatencyModel, arch: Architecture, phase: str) -> str:
    """The space by whose models an architecture is predicted; the last one where it fits none."""
    names = [name for name, known in model.stored.by_space.items() if phase in known]
    rows = [model.table.get((phase, step.unit)) for step in phase_steps(arch, phase)]
    fits = (name for name in names if all(row is not None and name in row.spaces for row in rows))
    return next(fits, names[-1] if names else "")


def _compared(subnet: Subnet, model: LatencyModel, phase: str, timing: Timing, slower: float) -> MeasuredSubnet:
    what = latency_on(model.name, phase)
    try:
        predicted = model.predict(subnet.arch, phase)
    except InputError as error:
        return MeasuredSubnet(subnet.path, what, None, timing, slower, f"not predicted: {error.marked}")
    share = float(model.unmeasured_shares([subnet.arch], phase)[0])
    return MeasuredSubnet(subnet.path, what, predicted, timing, slower, unmeasured=share)


def _with_advice(result: MeasuredSubnet, subnet: Subnet, model: LatencyModel, folder: Path) -> MeasuredSubnet:
    """Add a warning if the gap is large: the probable cause, and what to run."""
    gap, phase = result.gap or 0.0, result.measure.phase
    if abs(gap) <= MOST_GAP:
        return result
    other, whole = changes(model.stored), phase in model.stored.whole
    if other:
        why = f"the profile was measured under other conditions ({'; '.join(other)})"
    elif whole:
        why = "the profile was fitted on models measured elsewhere"
    elif result.unmeasured:
        why = f"{100 * result.unmeasured:.0f} % of the prediction is based on interpolated units"
    elif not any(all(name in model.row(step.unit, phase).spaces for step in phase_steps(subnet.arch, phase))
                 for name in model.stored.by_space):
        why = "no profiled space contains all its units"
    else:
        why = "the profile is out of date"
    name = model.stored.device.name
    again = f" after deleting {folder}" if other or whole else ""
    command = Command("profile", name, space=subnet.facts.run, phase=phase, budget="10m",
                      out=None if folder == named_folder(name) else folder)
    return replace(result, warning=f"{subnet.path} takes {100 * abs(gap):.0f} % {'more' if gap > 0 else 'less'} time "
                                  f"on {model.name} than predicted: {why}; run {command}{again}")


def _keep(subnet: Subnet, timed: MeasuredSubnet, model: LatencyModel, header: dict[str, Any]) -> MeasuredSubnet:
    """Write the result into the subnet's folder."""
    device = model.stored.device
    conditions = {**model.stored.conditions.model_dump(), "runtime": device.runtime, "precision": device.precision,
                  "threads": device.threads, "low": timed.timing.low, "high": timed.timing.high,
                  "slowdown": timed.slowdown, **header.get("versions", {}), "date": str(date.today())}
    with locked(subnet.path, "subnet"):
        facts = Subnet.open(str(subnet.path)).facts
        result = Measured(predicted_ms=timed.predicted_ms, unmeasured_share=timed.unmeasured,
                          measured_ms=timed.timing.ms, conditions=conditions)
        subnet.write_facts(facts.model_copy(update={"measured": {**facts.measured, timed.measure.name: result}}))
    return timed
