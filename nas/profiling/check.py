"""`nas profile --check`: is predicted latency true when whole models, none of them seen before, are measured?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.latency import LatencyModel, phase_steps
from hardware_profiles.table import Work
from nas.profiling.choice import draw_models, model_macs
from nas.profiling.speed import known_models, slowdown
from nas.profiling.stage import Profiling
from nas.profiling.timing import Bench
from nas.profiling.workloads import Workload
from nas.ranking.kendall import tau
from nas.run_dir import write_json, write_text
from search_spaces import Architecture
from search_spaces.units import Unit

Floats = NDArray[np.float64]
BAND, DECODE_ERROR = 0.10, 0.10


@dataclass(frozen=True)
class Quality:
    """How predictions stand to measurements.

    Args:
        mape: mean relative error.
        within: share that misses by at most 10 %.
        tau: Kendall's, over all models; `tau_within_depth` is the mean of those among models of one depth.
    """

    mape: float
    within: float
    tau: float | None
    tau_within_depth: float | None


@dataclass(frozen=True)
class Check:
    """What a check found; `predicted` stands beside two cruder ways and the noise of measuring itself.

    Args:
        slowdown: how many times as long known models took as when they were profiled; measured times are divided by
            it, so that they are of the profile's speed.
        as_timed: predictions against times that are not.
    """

    phase: str
    n: int
    overlap: int
    slowdown: float
    noise_floor: float
    predicted: Quality
    as_timed: Quality
    naive_is: str
    naive: Quality
    macs: Quality
    inside_interval: float

    @property
    def good(self) -> bool:
        """Whether predictions are as true as the project promises: near the noise, in order.

        One token takes so little time that a runtime's own housekeeping shows: of decoding only the error counts.
        """
        if self.phase == "decode":
            return self.predicted.mape <= DECODE_ERROR
        return (self.predicted.mape <= max(0.03, 1.5 * self.noise_floor) and self.predicted.within >= 0.98
                and (self.predicted.tau or 0.0) >= 0.95)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"schema_version": 1, **asdict(self), "good": self.good}


def check(profiling: Profiling, phase: str, n: int, budget_s: float) -> Check:
    """Measure n held-out models twice, one time after the other, and compare. Saved in the profile's folder."""
    model, calibrated = profiling.model(), profiling.calibration_models()
    seen = {*profiling.stored.seen, *(arch.key for arch in calibrated)}
    archs = draw_models(profiling.space, n, f"check-{phase}", avoid=seen)
    predicted = model.predict_many(archs, phase)
    intervals = [model.interval(arch, phase) for arch in archs]
    bench, wholes = profiling.bench(), [Workload(phase, arch) for arch in archs]
    known = known_models(profiling.measured, phase, profiling.space.name)
    again = [Workload(phase, each.arch) for each in known] or [Workload(phase, calibrated[-1])]
    bench.prepare([*wholes, *again])
    passes, slower = [], []
    for number in (1, 2):
        timings = bench.time([*wholes, *again], again[len(again) // 2], budget_s / 2, f"check-{phase}-{number}")
        slower.append(slowdown(known, timings))
        passes.append(np.array([timings[whole.name].ms for whole in wholes]))
    timed, (first, second) = np.mean(passes, axis=0), (times / by for times, by in zip(passes, slower))
    measured = (first + second) / 2
    works = {unit: row.work for (known, unit), row in model.table.items() if known == phase}
    found = Check(
        phase=phase, n=n, overlap=len(set(profiling.stored.seen) & {arch.key for arch in archs}),
        slowdown=float(np.mean(slower)), noise_floor=float(np.mean(np.abs(first - second) / measured)),
        predicted=quality(predicted, measured, archs), as_timed=quality(predicted, timed, archs),
        naive_is="uncalibrated table" if bench.runtime.SUFFIX else "naive table",
        naive=quality(naive(model, archs, phase, bench, slower[-1]), measured, archs),
        macs=quality(_proportional(archs, works, phase, measured), measured, archs),
        inside_interval=float(np.mean([low <= ms <= high for (low, high), ms in zip(intervals, measured)])))
    _save(profiling.out, found, archs, measured, predicted)
    for number in (1, 2):
        bench.forget(f"check-{phase}-{number}")
    return found


def quality(predicted: Floats, measured: Floats, archs: Sequence[Architecture]) -> Quality:
    """Errors and ranks of predictions."""
    errors = np.abs(predicted / measured - 1)
    depths = np.array([arch.depth for arch in archs])
    taus = [(tau(predicted[depths == depth], measured[depths == depth]), int(np.sum(depths == depth)))
            for depth in np.unique(depths) if np.sum(depths == depth) > 2]
    known = [(value, count) for value, count in taus if value is not None]
    within = sum(value * count for value, count in known) / sum(count for _, count in known) if known else None
    return Quality(float(errors.mean()), float(np.mean(errors <= BAND)), tau(predicted, measured), within)


def naive(model: LatencyModel, archs: Sequence[Architecture], phase: str, bench: Bench, slower: float) -> Floats:
    """The usual table: every unit timed alone, over and over, and added up; nothing is calibrated.

    Where timing one more file for every unit would take long, the stacks' times are added up instead.
    """
    units = list(dict.fromkeys(step.unit for arch in archs for step in phase_steps(arch, phase)))
    if bench.runtime.SUFFIX:
        alone = {unit: model.row(unit, phase).ms for unit in units}
    else:
        alone = {unit: bench.alone(Workload(phase, unit)) / slower for unit in units}
    return np.array([sum(alone[step.unit] for step in phase_steps(arch, phase)) for arch in archs])


def _proportional(archs: Sequence[Architecture], works: dict[Unit, Work], phase: str, measured: Floats) -> Floats:
    """Milliseconds in proportion to multiply-adds, by the factor that suits these very models best."""
    macs = np.array([model_macs(arch, phase, works) for arch in archs])
    return macs * float(np.median(measured / macs))


def _save(folder: Path, found: Check, archs: Sequence[Architecture], measured: Floats, predicted: Floats) -> None:
    lines = ["key,measured_ms,predicted_ms\n"]
    lines += [f"{arch.key},{ms:.6g},{guess:.6g}\n" for arch, ms, guess in zip(archs, measured, predicted)]
    write_text(folder / f"check-{found.phase}.csv", "".join(lines))
    write_json(folder / f"check-{found.phase}.json", found.to_dict())
