"""What benchmarks measure with: interleaved seconds, and the memory of this process."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable


def interleaved(workloads: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The 20 % quantile of each workload's seconds, never less than the least, run in random order round by round."""
    seconds: dict[str, list[float]] = {name: [] for name in workloads}
    order, rng = list(workloads), random.Random(0)
    for name in order:
        workloads[name]()
    for _ in range(rounds):
        rng.shuffle(order)
        for name in order:
            start = time.perf_counter()
            workloads[name]()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.quantiles(values, n=5, method="inclusive")[0] for name, values in seconds.items()}


def resident(field: str) -> int:
    """Bytes the process holds (`VmRSS`) or has held at most (`VmHWM`)."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))
