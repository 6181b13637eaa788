"""The timing protocol, the same on every device: this file needs nothing but Python >= 3.9.

It is imported here and copied to devices, where `python measure.py JOB` runs it: JOB is a folder with `job.json`, the
runtime's own file as `runtime.py`, and the models. Every finished round is printed as one line of JSON, or appended to
the results file that the job names; started again, it then resumes after the finished rounds.

Workloads are timed in rounds, each in a new random order, so that a busy moment affects all equally; a reference
workload runs in between and shows the current speed of the machine. The result is a low quantile of each workload's
seconds, corrected for drift, because noise only adds time. A workload with a tight interval leaves the rounds. An
important one may be sampled several times per round.
"""

import sys

if __name__ == "__main__" and not sys.flags.isolated and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # the job folder contains data: a file argparse.py in it must not be imported. No __future__
    # import above, because that would already be one

import argparse
import contextlib
import importlib.util
import json
import math
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

SCHEMA_VERSION = 1
QUANTILE = 0.2
REFERENCE_EVERY = 8
"""Workloads between two runs of the reference."""
DRIFT_WINDOW = 9
"""Number of references whose low quantile is the current speed."""
FEW = 17
"""With fewer values, the quantile may lie below all of them."""
LEAST_RUN_S = 0.001
MOST_RUNS = 50
"""Maximum number of consecutive runs of a short workload; they should take a millisecond."""
LEASE_ENDED = 75
"""The exit code of a job whose lease has expired."""

Run = Callable[[], float]
"""Runs a workload once; returns its seconds."""


class Timing(NamedTuple):
    """Result of one workload: the low quantile of its milliseconds, and its 95 % interval."""

    ms: float
    low: float
    high: float
    n: int

    @property
    def spread(self) -> float:
        """Half the interval over the value."""
        return (self.high - self.low) / 2 / self.ms if self.ms > 0 else math.inf


class Protocol(NamedTuple):
    """When rounds end: all intervals are tight, enough rounds are done, or the time budget is used up.

    `often` says which workloads a round samples more than once, and how many times; the reference runs in between
    anyway. Once the time is spent, `late_rounds` replaces `least_rounds` where it is given.
    """

    seed: int = 0
    budget_s: float = 60.0
    least_rounds: int = 10
    most_rounds: int = 400
    tolerance: float = 0.01
    often: Mapping[str, int] = {}
    late_rounds: int | None = None


def rounds(workloads: Mapping[str, Run], reference: str, protocol: Protocol, emit: Callable[[dict[str, Any]], None],
           before: Iterable[Mapping[str, Any]] = (), stop: Callable[[], bool] = lambda: False,
           cold: bool = False) -> None:
    """Time workloads round by round and hand each finished round to `emit`.

    Args:
        workloads: name -> what to run; the reference is one of them.
        before: rounds that were finished earlier; they count.
        cold: each run is a separate process that does its own warm-up and repetitions; it is run once per sample.
    """
    finished = list(before)
    names = due(workloads, reference, protocol, finished)
    repeats = {name: 0 if cold else _repeats(run) for name, run in workloads.items()} if names else {}
    while names and not stop():
        start, index = time.perf_counter(), len(finished)
        rng = random.Random(f"{protocol.seed}/{index}")  # noqa: S311 - no secret
        order = _order(names, reference, protocol.often, rng)
        seconds = [[name, _sample(workloads[name], repeats[name])] for name in order]
        line = {"round": index, "seconds": seconds, "spent_s": time.perf_counter() - start}
        finished.append(line)
        emit(line)
        names = due(workloads, reference, protocol, finished)


def due(workloads: Iterable[str], reference: str, protocol: Protocol,
        finished: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names in the next round; none if the rounds have ended.

    Every workload is in the minimum number of rounds, whatever earlier rounds contained; in fewer if the time is used
    up and the protocol allows it.
    """
    names, known = list(workloads), summarise(finished, reference)
    took = Counter(name for line in finished for name in {name for name, _ in line["seconds"]})
    spent_s = sum(float(line["spent_s"]) for line in finished)
    late = spent_s >= protocol.budget_s
    ended = len(finished) >= protocol.most_rounds or late
    least = protocol.least_rounds if protocol.late_rounds is None or not late else protocol.late_rounds
    wanted = [name for name in names if took[name] < least
              or not ended and name != reference and known[name].spread > protocol.tolerance]
    return [name for name in names if name in wanted or name == reference] if wanted else []


def _repeats(run: Run) -> int:
    """Number of consecutive runs that take about a millisecond.

    The first call does not count: it may compile or load something.
    """
    run()
    seconds = min(run() for _ in range(2))
    return min(max(math.ceil(LEAST_RUN_S / max(seconds, 1e-9)), 1), MOST_RUNS)


def _sample(run: Run, repeats: int) -> float:
    """Seconds of a run right after another one, so that the caches are in the state this workload leaves."""
    first = run()
    if not repeats:
        return first
    return sum(run() for _ in range(repeats)) / repeats


def _order(names: list[str], reference: str, often: Mapping[str, int], rng: random.Random) -> list[str]:
    shuffled = [name for name in names if name != reference for _ in range(often.get(name, 1))]
    rng.shuffle(shuffled)
    order = [reference]
    for i, name in enumerate(shuffled, start=1):
        order += [name, reference] if i % REFERENCE_EVERY == 0 or i == len(shuffled) else [name]
    return order


def summarise(lines: Iterable[Mapping[str, Any]], reference: str) -> dict[str, Timing]:
    """The timing of every workload in the rounds, corrected for drift."""
    samples = [(str(name), float(seconds)) for line in lines for name, seconds in line["seconds"]]
    times: dict[str, list[float]] = {}
    for (name, seconds), factor in zip(samples, drift(samples, reference)):
        times.setdefault(name, []).append(1e3 * seconds / factor)
    return {name: _timing(values) for name, values in times.items()}


def drift(samples: list[tuple[str, float]], reference: str) -> list[float]:
    """How slow the machine was at every sample: the references around it divided by the typical reference.

    Factors below one are ignored, because the typical reference is already a low quantile.
    """
    at = [i for i, (name, _) in enumerate(samples) if name == reference]
    if len(at) < DRIFT_WINDOW:
        return [1.0] * len(samples)
    seconds = [samples[i][1] for i in at]
    usual = _quantile(sorted(seconds), QUANTILE)
    half = DRIFT_WINDOW // 2
    near = [sorted(seconds[max(k - half, 0) : k + half + 1]) for k in range(len(at))]
    local = [max(_quantile(window, QUANTILE) / usual, 1.0) for window in near]
    factors, k = [], 0
    for i in range(len(samples)):
        while k + 1 < len(at) and abs(at[k + 1] - i) <= abs(at[k] - i):
            k += 1
        factors.append(local[k])
    return factors


def _timing(values: list[float]) -> Timing:
    """The low quantile, and the order statistics that enclose it with 95 % confidence; more with few values."""
    ordered, n = sorted(values), len(values)
    half = 1.96 * math.sqrt(n * QUANTILE * (1 - QUANTILE))
    low = ordered[max(math.floor(n * QUANTILE - half), 0)]
    high = ordered[min(math.ceil(n * QUANTILE + half), n - 1)]
    ms = _quantile(ordered, QUANTILE)
    if n < FEW:  # the minimum of few values is not a bound: extend as far below as above
        low = min(low, max(2 * ms - high, 0.0))
    return Timing(ms, low, high, n)


def _quantile(ordered: list[float], share: float) -> float:
    """Of sorted values, between the two nearest."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def random_inputs(described: Iterable[Mapping[str, Any]], seed: int = 0) -> list[Any]:
    """NumPy arrays of described inputs: `dtype`, `shape` and, for whole numbers, `high`."""
    import numpy as np

    rng = np.random.default_rng(seed)
    return [rng.integers(0, entry["high"], entry["shape"]).astype(entry["dtype"]) if "int" in entry["dtype"]
            else rng.standard_normal(entry["shape"]).astype(entry["dtype"]) for entry in described]


def load_module(path: Path) -> Any:
    """A Python file as a module."""
    spec = importlib.util.spec_from_file_location("device_runtime", str(path))
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def peak_bytes(runtime: Any, folder: Path, first: Mapping[str, Any], workload: Mapping[str, Any],
               options: dict[str, Any]) -> int:
    """Bytes by which loading and running one model raises the memory of this process, which should be new.

    Args:
        first: a small model to run before, so that libraries loaded on first use do not count.
    """
    _run_twice(runtime, folder, first, options)
    before = start_peak()
    _run_twice(runtime, folder, workload, options)
    return peak_so_far() - before


def _run_twice(runtime: Any, folder: Path, workload: Mapping[str, Any], options: dict[str, Any]) -> None:
    run = runtime.load(str(folder / workload["file"]), random_inputs(workload["inputs"]), options)
    run()
    run()


def start_peak() -> int:
    """Reset the peak memory: returns the current bytes, or the peak so far if the system cannot reset it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", "ascii")  # Linux: reset the peak memory
    return peak_so_far()


def peak_so_far() -> int:
    """The peak memory of this process in bytes."""
    try:
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        import resource

        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


def main(folder: Path, emit: Callable[[dict[str, Any]], None], runtime_file: Path | None = None) -> None:
    """Run the job of a folder.

    Args:
        runtime_file: the runtime's source; `runtime.py` of the folder by default.
    """
    job = json.loads((folder / "job.json").read_text("utf-8"))
    before = list(job.get("before", ()))
    if job.get("results"):
        path = folder / job["results"]
        before += kept(path, job["key"])
        emit = _appender(path, Protocol(**job["protocol"]))
    runtime, options = load_module(runtime_file or folder / "runtime.py"), job["options"]
    emit({"schema_version": SCHEMA_VERSION, "job": job.get("key"), "versions": runtime.versions(),
          "machine": machine()})
    if job.get("memory_of"):
        workload = next(workload for workload in job["workloads"] if workload["name"] == job["memory_of"])
        peak = peak_bytes(runtime, folder, job["workloads"][0], workload, options)
        emit({"peak_of": workload["name"], "peak_bytes": peak})
        return
    workloads = {entry["name"]: runtime.load(str(folder / entry["file"]), random_inputs(entry["inputs"]), options)
                 for entry in job["workloads"]}
    rounds(workloads, job["reference"], Protocol(**job["protocol"]), emit, before)


def kept(path: Path, key: str) -> list[dict[str, Any]]:
    """The finished rounds of a file of results; an incomplete last line is removed from it.

    Ends the program if the file is of another job.
    """
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        path.write_bytes(whole)
    lines = [json.loads(text) for text in whole.decode("utf-8").splitlines()]
    if any("versions" in line and line.get("job") != key for line in lines):
        sys.exit(f"{path} contains the results of another job; move it away and restart")
    return [line for line in lines if "seconds" in line]


def _appender(path: Path, protocol: Protocol) -> Callable[[dict[str, Any]], None]:
    def emit(line: dict[str, Any]) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if "seconds" in line:
            text = f"round {line['round'] + 1} of at most {protocol.most_rounds}: {line['spent_s']:.1f} s\n"
            sys.stderr.write(text)

    return emit


def machine() -> dict[str, str]:
    """Processor model, frequency governor and operating system."""
    import platform

    facts = {"system": f"{platform.system()} {platform.machine()}", "python": platform.python_version(),
             "cpu": platform.processor() or platform.machine()}
    paths = {"cpu": "/proc/cpuinfo", "governor": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"}
    for name, path in paths.items():
        try:
            text = Path(path).read_text("utf-8")
        except OSError:
            continue
        lines = [line.split(":", 1)[1].strip() for line in text.splitlines()
                 if line.startswith(("model name", "Model"))]
        facts[name] = (lines or [facts["cpu"]])[0] if name == "cpu" else text.strip()
    return facts


def hold_lease(seconds: float, done: Callable[[], bool]) -> None:
    """Exit when standard input is closed, or when nothing arrives on it for this many seconds.

    The process that started the job writes to it regularly. If the connection is lost or that process is killed, the
    input closes or falls silent, and the device becomes free. A job that has finished and is exiting is no longer
    watched.
    """
    import select
    import threading

    def watch() -> None:
        while select.select([0], [], [], seconds)[0] and os.read(0, 4096):
            pass
        if not done():
            os._exit(LEASE_ENDED)

    threading.Thread(target=watch, daemon=True).start()


def _printer() -> Callable[[dict[str, Any]], None]:
    """Prints lines to the original standard output; other output there, such as a library's, goes to standard error."""
    sys.stdout.flush()
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def emit(line: dict[str, Any]) -> None:
        output.write(json.dumps(line) + "\n")
        output.flush()

    return emit


def _command() -> None:
    parser = argparse.ArgumentParser(description="Measure the latency of the models in a folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lease", type=float, help="exit after this many seconds without a line on standard input")
    parser.add_argument("--runtime", type=Path, help="source file of the runtime; default: runtime.py of the folder")
    arguments = parser.parse_args()
    finished: list[bool] = []
    if arguments.lease is not None:
        hold_lease(arguments.lease, lambda: bool(finished))
    try:
        main(arguments.folder, _printer(), arguments.runtime)
    except ImportError as error:
        sys.exit(f"{error}; install it with `{sys.executable} -m pip install {error.name or ''}`")
    except KeyboardInterrupt:
        sys.exit("stopped")
    finally:
        finished.append(True)


if __name__ == "__main__":
    _command()
