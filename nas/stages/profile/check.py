"""Compares predicted latencies with those of whole models that the profile has not seen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardware_profiles.latency import LatencyModel
from hardware_profiles.steps import phase_steps
from hardware_profiles.table import UnitWork
from nas.core.pareto import Floats
from nas.core.prediction_quality import (
    ENOUGH,
    GOOD,
    LEAST_TAU,
    LEAST_WITHIN,
    TOO_FEW,
    Quality,
    most_error,
    quality,
    verdict,
)
from nas.core.run_dir import write_json, write_text
from nas.core.timing.session import Bench
from nas.core.timing.speed import known_models, slowdown
from nas.core.timing.workloads import Workload
from nas.stages.profile.choice import draw_models, model_macs
from nas.stages.profile.profiling import Profiling
from nas.stages.profile.selection import LATE_ROUNDS
from search_spaces import Architecture
from search_spaces.errors import Option
from search_spaces.units import Unit

LEAST, COMPILING_SHARE = 4, 0.6
"""Models that are always measured; share of the budget after which no more are compiled."""


@dataclass(frozen=True)
class ProfileCheck:
    """The errors of a profile, of two simpler baselines, and the measurement noise.

    Args:
        slowdown: how many times as long known models took as when they were profiled; measured times are divided by it
            to match the profile's speed.
        as_timed: predictions against uncorrected times.
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
    def verdict(self) -> str:
        """Whether predictions meet the thresholds."""
        return verdict(self.phase, self.n, self.predicted, self.noise_floor)

    @property
    def good(self) -> bool:
        """Whether the verdict is good."""
        return self.verdict == GOOD

    def why(self) -> str:
        """The reasons for the verdict."""
        if self.verdict == TOO_FEW:
            return f"only {self.n} models; {ENOUGH} are needed: run with {Option('check')} {Option('n')} {ENOUGH}"
        if self.verdict == GOOD:
            return ""
        limit = most_error(self.phase, self.noise_floor)
        reasons = [f"error {100 * self.predicted.mape:.1f} %, good: at most {100 * limit:.1f} %"]
        if self.phase != "decode":
            reasons += [f"{100 * self.predicted.within:.0f} % within 10 %, good: at least {100 * LEAST_WITHIN:.0f} %",
                        f"tau {self.predicted.tau or 0.0:.2f}, good: at least {LEAST_TAU}"]
        return "; ".join(reasons)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"schema_version": 1, **asdict(self), "good": self.good, "verdict": self.verdict}


def check(profiling: Profiling, phase: str, n: int, budget_s: float) -> ProfileCheck:
    """Measure held-out models twice and compare. Saved in the profile's folder.

    Args:
        n: how many models; fewer where the budget has no time to compile them.
        budget_s: seconds for everything, compiling included.
    """
    start = time.monotonic()
    model, calibrated = profiling.model(), profiling.calibration_models()
    seen = {*profiling.stored.seen, *(arch.key for arch in calibrated)}
    archs = draw_models(profiling.space, n, f"check-{phase}", avoid=seen)
    predicted = model.predict_many(archs, phase)
    intervals = [model.interval(arch, phase) for arch in archs]
    bench, wholes = profiling.bench(), [Workload(phase, arch) for arch in archs]
    known = known_models(profiling.measured, phase, profiling.space.name)
    again = [Workload(phase, entry.arch) for entry in known] or [Workload(phase, calibrated[-1])]
    bench.prepare([*again, *wholes], start + COMPILING_SHARE * budget_s, len(again) + LEAST)
    ready = [i for i, whole in enumerate(wholes) if whole.name in bench.compiled or whole.name in bench.live]
    if len(ready) < n:
        profiling.progress.note(f"{phase}: the budget is enough for {len(ready)} of {n} models")
    archs, wholes = [archs[i] for i in ready], [wholes[i] for i in ready]
    predicted, intervals = predicted[ready], [intervals[i] for i in ready]
    passes, slower, timing_s = [], [], max(start + budget_s - time.monotonic(), 0.0)
    for number in (1, 2):
        timings = bench.time([*wholes, *again], again[len(again) // 2], timing_s / 2, f"check-{phase}-{number}",
                             late_rounds=LATE_ROUNDS)
        slower.append(slowdown(known, timings))
        passes.append(np.array([timings[whole.name].ms for whole in wholes]))
    timed, (first, second) = np.mean(passes, axis=0), (times / by for times, by in zip(passes, slower))
    measured = (first + second) / 2
    works = {unit: row.work for (known, unit), row in model.table.items() if known == phase}
    result = ProfileCheck(
        phase=phase, n=len(archs), overlap=len(set(profiling.stored.seen) & {arch.key for arch in archs}),
        slowdown=float(np.mean(slower)), noise_floor=float(np.mean(np.abs(first - second) / measured)),
        predicted=quality(predicted, measured, archs), as_timed=quality(predicted, timed, archs),
        naive_is="uncalibrated table" if bench.runtime.SUFFIX else "naive table",
        naive=quality(naive(model, archs, phase, bench, slower[-1]), measured, archs),
        macs=quality(_proportional(archs, works, phase, measured), measured, archs),
        inside_interval=float(np.mean([low <= ms <= high for (low, high), ms in zip(intervals, measured)])))
    _save(profiling.out, result, archs, measured, predicted)
    for number in (1, 2):
        bench.forget(f"check-{phase}-{number}")
    return result


def naive(model: LatencyModel, archs: Sequence[Architecture], phase: str, bench: Bench, slower: float) -> Floats:
    """The naive baseline: the sum of units timed alone repeatedly, without calibration.

    If that takes too long, the times of stacks are used instead.
    """
    units = list(dict.fromkeys(step.unit for arch in archs for step in phase_steps(arch, phase)))
    if bench.runtime.SUFFIX:
        alone = {unit: model.row(unit, phase).ms for unit in units}
    else:
        alone = {unit: bench.alone(Workload(phase, unit)) / slower for unit in units}
    return np.array([sum(alone[step.unit] for step in phase_steps(arch, phase)) for arch in archs])


def _proportional(archs: Sequence[Architecture], works: dict[Unit, UnitWork], phase: str, measured: Floats) -> Floats:
    """Milliseconds proportional to multiply-adds, with the best factor for these models."""
    macs = np.array([model_macs(arch, phase, works) for arch in archs])
    return macs * float(np.median(measured / macs))


def _save(folder: Path, result: ProfileCheck, archs: Sequence[Architecture], measured: Floats,
          predicted: Floats) -> None:
    lines = ["key,measured_ms,predicted_ms\n"]
    lines += [f"{arch.key},{ms:.6g},{guess:.6g}\n" for arch, ms, guess in zip(archs, measured, predicted)]
    write_text(folder / f"check-{result.phase}.csv", "".join(lines))
    write_json(folder / f"check-{result.phase}.json", result.to_dict())
