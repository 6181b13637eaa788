"""Peak memory of whole models, each measured in a fresh process, and the law that predicts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from hardware_profiles import measure, runtimes
from hardware_profiles.latency import LatencyModel
from hardware_profiles.stored import Conditions, Memory
from nas.profiling.fresh import Pool
from nas.profiling.timing import Bench, Rounds, Stopped
from nas.profiling.workloads import Workload
from search_spaces import Architecture, InputError

Floats = NDArray[np.float64]
LEAST = 1e6
"""Bytes below which a peak is a matter of how memory is handed out."""


def fit_memory(bench: Bench, model: LatencyModel, archs: Sequence[Architecture]) -> Memory | None:
    """A law fitted on a few models; None where the runtime or the way to the device cannot tell.

    Args:
        archs: the first is only run to load what libraries need.
    """
    if bench.runtime.SUFFIX and not bench.transport.MEMORY:
        return None
    first, *archs = archs
    peaks = measure_peaks(bench, first, archs)
    features = np.array([[1.0, *model.memory_features(arch)] for arch in archs])
    found = _fit(features, peaks)
    left_out = [_fit(np.delete(features, i, 0), np.delete(peaks, i)) @ features[i] - peaks[i]
                for i in range(len(archs))]
    return Memory(base=found[0], weights=found[1], moved=found[2], n=len(archs),
                  error=float(np.sqrt(np.mean(np.square(left_out / np.maximum(peaks, LEAST))))))


def _fit(features: Floats, peaks: Floats) -> Floats:
    weights = 1 / np.maximum(peaks, LEAST)
    return np.asarray(nnls(features * weights[:, None], peaks * weights)[0])


def measure_peaks(bench: Bench, smallest: Architecture, archs: Sequence[Architecture]) -> Floats:
    """Peak bytes of each model over what its process held before."""
    first, workloads = Workload("prefill", smallest), [Workload("prefill", arch) for arch in archs]
    if bench.runtime.SUFFIX:
        bench.prepare([first, *workloads])
        return np.array([_peak_elsewhere(bench, first, workload) for workload in workloads])
    peaks = []
    for workload in workloads:
        if bench.stop():
            raise Stopped
        with Pool(1) as fresh:
            peaks.append(fresh.submit(_peak_here, first, workload, bench.conditions, bench.device.runtime,
                                      bench.device.runtime_options()).result())
    return np.array(peaks, dtype=np.float64)


def _peak_elsewhere(bench: Bench, first: Workload, workload: Workload) -> float:
    found: list[dict[str, Any]] = []
    rounds = Rounds(bench.folder / "memory.jsonl", workload.name)
    job = bench.job([first, workload], workload, measure.Protocol(), rounds)
    bench.transport.run(replace(job, memory_of=workload.name), found.append, bench.stop)
    if bench.stop():
        raise Stopped
    peaks = [line["peak_bytes"] for line in found if "peak_bytes" in line]
    if len(peaks) != 1 or not isinstance(peaks[0], (int, float)) or not peaks[0] >= 0:
        raise InputError(bench.device.name, f"gave {peaks} as the peak memory of a model; a number of bytes is needed")
    return float(peaks[0])


def _peak_here(first: Workload, workload: Workload, conditions: Conditions, name: str, options: dict[str, Any]) -> int:
    """In a process of its own: the weights, and what running raises the memory by.

    What libraries load when the first model runs does not count. A runtime that knows its own memory is asked.
    """
    runtime = runtimes.get(name)
    module, inputs = workload.build(conditions)
    if hasattr(runtime, "peak_bytes"):
        return int(runtime.peak_bytes(module, inputs, options))
    small, small_inputs = first.build(conditions)
    runtime.load(small, small_inputs, options)()
    run = runtime.load(module, inputs, options)
    weights = sum(each.numel() * each.element_size() for each in module.parameters())
    before = measure.start_peak()
    run()
    run()
    return weights + measure.peak_so_far() - before
