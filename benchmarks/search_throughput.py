"""What a search costs beside its evaluations.

    python benchmarks/search_throughput.py [--trials N] [--slow-trials N] [--seconds S] [--growth N ...]
                                           [--results benchmarks/results]

On lm-small, for the loss and the parameters, proposed at random; an evaluation does nothing, or sleeps for S seconds.
Prints one JSON line. `backends`, in this process and on Ray with 2 workers, with evaluations of no time (`nothing`) and
of S seconds (`slow`): `ms` from one trial told to the next, proposing and Ray included; `idle`, the share of the
workers' time not spent evaluating, from when all have begun until the last ends; `counted`, the trials told in that
time, which has to be most of them; `workers`, those that had begun before all was done: they take seconds to start.
`growth`: ms per trial in this process, by sampler, over the last trials before each number; random and predictor are
our own, the others Optuna's.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _results import add_option, append

from nas.core.config import RunConfig
from nas.core.progress import StageProgress
from nas.core.run_dir import RunDir
from nas.core.search_config import SearchConfig
from nas.stages.search.evaluations import Evaluations
from nas.stages.search.evaluator import Evaluation
from nas.stages.search.racing import Rival
from nas.stages.search.request import SearchCluster
from nas.stages.search.search import Search
from nas.stages.search.setup import SearchSetup
from nas.stages.search.suggestions import Suggestions
from nas.stages.train.run import begin
from search_spaces import Architecture

SPACE = "lm-small"
WORKERS = 2
SAMPLERS = {"random": 5000, "predictor": 5000, "nsga2": 1000, "tpe": 1000}
"""The most trials of each: what is not ours is as slow as it is."""
WINDOW = 50


@dataclass(frozen=True)
class Sleeper:
    """Evaluates nothing in a given time, and writes down from when to when; a file for each process."""

    folder: Path
    seconds: float

    def __call__(self) -> Callable[[Architecture, Rival | None], Evaluation]:
        return self.evaluate

    def evaluate(self, arch: Architecture, race: Rival | None) -> Evaluation:
        start = time.time()
        time.sleep(self.seconds)
        with (self.folder / f"{os.getpid()}.busy").open("a") as file:
            file.write(f"{start} {time.time()}\n")
        return Evaluation({"loss": 2 + math.sin(int(arch.key[:8], 16))})

    def busy(self) -> list[list[tuple[float, float]]]:
        """From when to when, by process."""
        files = [path.read_text().splitlines() for path in self.folder.glob("*.busy")]
        return [[tuple(map(float, line.split())) for line in lines] for lines in files]  # type: ignore[misc]


def opened(run: RunDir, folder: Path, **settings: Any) -> Search:
    """A search of a copy of a run that has data and no weights."""
    copy = RunDir(str(shutil.copytree(run.path, folder / "run")))
    copy.weights_path.touch()
    setup = SearchSetup(copy, SearchConfig(objectives=("loss", "params"), **settings))
    search = Search(setup, Suggestions(setup), Evaluations.of(setup.run.path, setup.conditions()))
    search.record.start(search.n_trials)
    return search


def here(search: Search, make: Sleeper) -> None:
    search.run(evaluate=make())


def on_ray(search: Search, make: Sleeper) -> None:
    from nas.stages.search.ray_backend import run_on_ray

    run_on_ray(search, lambda: False, SearchCluster("local", concurrency=WORKERS), make)


def cost(data: RunDir, run: Callable[[Search, Sleeper], None], trials: int, seconds: float) -> dict[str, float]:
    """What is printed of one backend."""
    with tempfile.TemporaryDirectory() as folder:
        search, make = opened(data, Path(folder), sampler="random", trials=trials), Sleeper(Path(folder), seconds)
        moments: list[float] = []
        search.on_trial = lambda trial: moments.append(time.time())
        run(search, make)
        workers = make.busy()
    first, last = max(one[0][0] for one in workers), max(one[-1][1] for one in workers)
    spans = [max(end - max(start, first), 0.0) for one in workers for start, end in one]
    after = [moment for moment in moments if moment >= first]
    return {"workers": len(workers), "counted": len(after) - 1,
            "ms": round(1e3 * (after[-1] - after[0]) / max(len(after) - 1, 1), 2),
            "idle": round(1 - sum(spans) / max(len(workers) * (last - first), 1e-9), 4)}


def growth(data: RunDir, sampler: str, numbers: list[int]) -> dict[int, float]:
    """Milliseconds per trial over the last ones before each number."""
    numbers = [number for number in numbers if number <= SAMPLERS[sampler]]
    with tempfile.TemporaryDirectory() as folder:
        times: defaultdict[int, float] = defaultdict(float)
        search = opened(data, Path(folder), sampler=sampler, trials=max(numbers))
        search.on_trial = lambda trial: times.__setitem__(trial.number + 1, time.perf_counter())
        here(search, Sleeper(Path(folder), 0.0))
        return {number: round(1e3 * (times[number] - times[number - WINDOW]) / WINDOW, 2) for number in numbers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--slow-trials", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--growth", type=int, nargs="*", default=[100, 300, 1000, 5000])
    parser.add_argument("--samplers", nargs="*", default=list(SAMPLERS), choices=list(SAMPLERS))
    add_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = begin(f"{folder}/run", RunConfig(space=SPACE, task="lm"), StageProgress())
        cost(data, here, options.trials, 0.0)  # what is counted is remembered: no backend pays for it
        backends = {name: {"nothing": cost(data, run, options.trials, 0.0),
                           "slow": cost(data, run, options.slow_trials, options.seconds)}
                    for name, run in (("local", here), ("ray", on_ray))}
        grown = {sampler: growth(data, sampler, options.growth) for sampler in options.samplers}
    print(json.dumps({"benchmark": "search_throughput", "space": SPACE, "seconds": options.seconds,
                      "trials": options.trials, "backends": backends, "growth": grown}))
    append(options.results, "search_overhead",
           [{"sampler": sampler, "trials": number, "ms_per_trial": ms}
            for sampler, times in grown.items() for number, ms in times.items()])


if __name__ == "__main__":
    main()
