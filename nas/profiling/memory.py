"""Peak memory of whole models, each measured in a fresh process, and the law that predicts it."""

from __future__ import annotations

import multiprocessing
import resource
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from hardware_profiles import measure, runtimes
from hardware_profiles.latency import LatencyModel
from hardware_profiles.stored import Conditions, Memory
from nas.profiling.timing import Bench, Rounds
from nas.profiling.workloads import Workload
from search_spaces import Architecture


def fit_memory(bench: Bench, model: LatencyModel, archs: Sequence[Architecture]) -> Memory | None:
    """A law fitted on a few models; None where the runtime or the way to the device cannot tell."""
    peaks = measure_peaks(bench, archs)
    if peaks is None:
        return None
    features = np.array([[1.0, *model.memory_features(arch)] for arch in archs])
    found = _fit(features, peaks)
    left_out = [_fit(np.delete(features, i, 0), np.delete(peaks, i)) @ features[i] / peaks[i] - 1
                for i in range(len(archs))]
    return Memory(base=found[0], weights=found[1], moved=found[2], n=len(archs),
                  error=float(np.sqrt(np.mean(np.square(left_out)))))


def _fit(features: np.ndarray, peaks: np.ndarray) -> np.ndarray:
    return np.asarray(nnls(features / peaks[:, None], np.ones(len(peaks)))[0])


def measure_peaks(bench: Bench, archs: Sequence[Architecture]) -> np.ndarray | None:
    """Peak bytes of each model over what its process held before."""
    workloads = [Workload("prefill", arch) for arch in archs]
    if bench.runtime.SUFFIX:
        if bench.device.transport["kind"] not in ("local", "ssh"):
            return None
        bench.prepare(workloads)
        return np.array([_peak_elsewhere(bench, workload) for workload in workloads])
    peaks = []
    for workload in workloads:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh:
            peaks.append(fresh.submit(_peak_here, workload, bench.conditions, bench.device.runtime,
                                      bench.device.runtime_options()).result())
    return np.array(peaks, dtype=np.float64)


def _peak_elsewhere(bench: Bench, workload: Workload) -> float:
    found: list[dict[str, Any]] = []
    job = bench.job([workload], workload, measure.Protocol(), Rounds(bench.folder / "memory.jsonl", workload.name))
    bench.transport.run(replace(job, memory_of=workload.name), found.append, bench.stop)
    return float(next(line["peak_bytes"] for line in found if "peak_bytes" in line))


def _peak_here(workload: Workload, conditions: Conditions, runtime: str, options: dict[str, Any]) -> int:
    """In a process of its own: the greatest memory never falls."""
    module, inputs = workload.build(conditions)
    own = sum(each.numel() * each.element_size() for each in module.parameters())
    before = _peak_so_far()
    run = runtimes.get(runtime).load(module, inputs, options)
    run()
    run()
    return int(_peak_so_far() - before + own)


def _peak_so_far() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
