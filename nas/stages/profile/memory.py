"""Peak memory of whole models, each measured in a new process, and the formula that predicts it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from hardware_profiles import protocol, runtimes
from hardware_profiles.latency import LatencyModel
from hardware_profiles.profile import Conditions, Memory
from hardware_profiles.protocol import Protocol
from nas.core.pareto import Floats
from nas.core.stopping import Stopped
from nas.core.timing.compiling import processes
from nas.core.timing.fresh import FreshPool
from nas.core.timing.session import Bench, Rounds
from nas.core.timing.workloads import Workload
from search_spaces import Architecture, InputError

LEAST = 1e6
"""Bytes below which a peak is allocator noise."""
LEAST_PEAKS = 3
"""Minimum number of models for the fit."""
GUESS_S = {True: 1.5, False: 3.0}
"""Initial guess of seconds per model: for compiled files, and for modules, which import torch."""


def measurable(bench: Bench) -> bool:
    """Whether the transport can measure peak memory."""
    return not bench.runtime.SUFFIX or bool(bench.transport.MEMORY)


class Peaks:
    """Peak memory of whole models, measured one after the other as long as there is time.

    Args:
        wholes: all are prepared before they are measured; the first is only run to load what libraries need.
    """

    def __init__(self, bench: Bench, wholes: Sequence[Workload]) -> None:
        self.bench, self.first, self.todo = bench, wholes[:1], list(wholes[1:])
        self.archs, self.bytes, self.per_model_s = list[Architecture](), list[float](), 0.0

    @property
    def least_s(self) -> float:
        """Rough seconds for the minimum number of models."""
        return GUESS_S[bool(self.bench.runtime.SUFFIX)] * min(LEAST_PEAKS, len(self.todo))

    def measure(self, budget_s: float) -> None:
        """Measure the minimum number of models, and more until the time is used up. Raises Stopped."""
        start, together = time.monotonic(), 1 if self.bench.runtime.SUFFIX else processes()
        while self.todo and (len(self.archs) < LEAST_PEAKS or time.monotonic() - start + self.per_model_s < budget_s):
            some, self.todo = self.todo[:together], self.todo[together:]
            self.bytes += measure_peaks(self.bench, self.first[0], some)
            self.archs += [workload.what for workload in some if isinstance(workload.what, Architecture)]
            self.per_model_s = (time.monotonic() - start) / len(self.archs)
        if not self.bench.runtime.SUFFIX:
            self.per_model_s = 0.0  # timing starts no process there


def fit_memory(model: LatencyModel, peaks: Peaks) -> Memory:
    """The formula of peak memory, fitted on a few models."""
    archs, peak_bytes = peaks.archs, np.array(peaks.bytes, dtype=np.float64)
    features = np.array([[1.0, *model.memory_features(arch)] for arch in archs])
    fit = _fit(features, peak_bytes)
    left_out = [_fit(np.delete(features, i, 0), np.delete(peak_bytes, i)) @ features[i] - peak_bytes[i]
                for i in range(len(archs))]
    return Memory(base=fit[0], weights=fit[1], moved=fit[2], n=len(archs),
                  error=float(np.sqrt(np.mean(np.square(left_out / np.maximum(peak_bytes, LEAST))))))


def _fit(features: Floats, peaks: Floats) -> Floats:
    weights = 1 / np.maximum(peaks, LEAST)
    return np.asarray(nnls(features * weights[:, None], peaks * weights)[0])


def measure_peaks(bench: Bench, first: Workload, workloads: Sequence[Workload]) -> list[float]:
    """Peak bytes of each model beyond what its process held before; on this machine, all processes run at once."""
    if bench.stop():
        raise Stopped
    if bench.runtime.SUFFIX:
        return [_peak_elsewhere(bench, first, workload) for workload in workloads]
    with ExitStack() as stack:
        fresh = [stack.enter_context(FreshPool(1)) for _ in workloads]
        waiting = [pool.submit(_peak_here, first, workload, bench.conditions, bench.device.runtime,
                               bench.device.runtime_options()) for pool, workload in zip(fresh, workloads)]
        return [float(future.result()) for future in waiting]


def _peak_elsewhere(bench: Bench, first: Workload, workload: Workload) -> float:
    lines: list[dict[str, Any]] = []
    rounds = Rounds(bench.folder / "memory.jsonl", workload.name)
    job = bench.job([first, workload], workload, Protocol(), rounds)
    bench.transport.run(replace(job, memory_of=workload.name), lines.append, bench.stop)
    if bench.stop():
        raise Stopped
    peaks = [line["peak_bytes"] for line in lines if "peak_bytes" in line]
    if len(peaks) != 1 or not isinstance(peaks[0], (int, float)) or not peaks[0] >= 0:
        raise InputError(bench.device.name, f"returned {peaks} as the peak memory of a model; expected one number of "
                                            "bytes")
    return float(peaks[0])


def _peak_here(first: Workload, workload: Workload, conditions: Conditions, name: str, options: dict[str, Any]) -> int:
    """Measured in a separate process: weights plus the increase during a run.

    Memory of libraries loaded by the first model does not count. Runtimes may report their own memory.
    """
    runtime = runtimes.get(name)
    module, inputs = workload.build(conditions)
    if hasattr(runtime, "peak_bytes"):
        return int(runtime.peak_bytes(module, inputs, options))
    small, small_inputs = first.build(conditions)
    runtime.load(small, small_inputs, options)()
    run = runtime.load(module, inputs, options)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
    before = protocol.start_peak()
    run()
    run()
    return weights + protocol.peak_so_far() - before
