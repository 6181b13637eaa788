"""How much a search finds for how many evaluations: the samplers on a trained supernet, loss against a cost.

    python benchmarks/search_efficiency.py RUN [--cost params] [--trials 1000] [--seeds 3] [--limit 32] [--only nsga2/0]
                                           [--results benchmarks/results]

Every architecture is evaluated once on the supernet's weights and kept in RUN/efficiency, so the benchmark can be
stopped, run in parts (--only, several at once) and repeated. Prints one JSON line when every part is there: for each
sampler the mean hypervolume over the seeds after so many evaluations (the share of the box between the best and the
worst of all architectures seen), and after how many each reaches what NSGA-II has at the end.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from _results import add_option, append

from nas.core.pareto import Hypervolume
from nas.core.run_dir import RunDir
from nas.core.search_config import SearchConfig
from nas.stages.search.evaluations import Evaluations
from nas.stages.search.samplers import Proposer
from nas.stages.search.setup import SearchSetup
from nas.stages.search.suggestions import Suggestions

SAMPLERS = {"random": 1.0, "nsga2": 1.0, "tpe": 0.3, "predictor": 0.3}
"""Who is compared, and which share of the evaluations each gets: the predictor is after what 1,000 give in 100."""
MARKS = (20, 50, 100, 200, 300, 500, 1000)


def main() -> None:
    """Evaluate what is missing; print the line when nothing is."""
    arguments = _arguments()
    run = RunDir.open(arguments.run)
    folder = run.path / "efficiency"
    folder.mkdir(exist_ok=True)
    parts = {(sampler, seed): folder / f"{sampler}-{seed}-{arguments.cost.replace(':', '_')}-{arguments.limit}.csv"
             for sampler in SAMPLERS for seed in range(arguments.seeds)}
    for (sampler, seed), path in parts.items():
        if arguments.only in (None, f"{sampler}/{seed}") and not path.exists():
            n = round(arguments.trials * SAMPLERS[sampler])
            _write(path, _trajectory(run, arguments, sampler, seed, n))
    if all(path.exists() for path in parts.values()):
        summary = _summary(arguments, {part: _read(path) for part, path in parts.items()})
        print(json.dumps(summary))
        _keep(arguments, summary)


def _keep(arguments: argparse.Namespace, summary: dict[str, Any]) -> None:
    append(arguments.results, "search_efficiency",
           [{"run": arguments.run, "sampler": sampler, "seeds": arguments.seeds, "evaluations": mark,
             "hypervolume": volume} for sampler in SAMPLERS for mark, volume in summary[sampler].items()])
    append(arguments.results, "search_efficiency_match",
           [{"run": arguments.run, "sampler": "predictor", "seed": seed, "evaluations": "" if n is None else n}
            for seed, n in enumerate(summary["evaluations_to_nsga2_at_the_end"]["predictor"])])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run")
    parser.add_argument("--cost", default="params")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=32)
    parser.add_argument("--only")
    add_option(parser)
    return parser.parse_args()


def _trajectory(run: RunDir, arguments: argparse.Namespace, sampler: str, seed: int,
                n: int) -> list[tuple[float, float]]:
    """(loss, cost) of each new architecture in the order a sampler comes to it."""
    config = SearchConfig(objectives=("loss", arguments.cost), sampler=sampler, seed=seed, limit=arguments.limit)
    setup = SearchSetup(run, config)
    evaluate, proposer = setup.evaluator(), Proposer(sampler, Suggestions(setup).problem(), seed)
    known = Evaluations(run.path / "efficiency" / f"{sampler}-{seed}-{arguments.limit}.jsonl", setup.conditions())
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(directions=["minimize", "minimize"])
    points: dict[str, tuple[float, float]] = {}
    for number in range(3 * n):
        if len(points) == n:
            break
        study.sampler = proposer.sampler(number)
        trial = study.ask(setup.space.distributions())
        arch = setup.space.decode(trial.params)
        evaluation = known.get(arch.key) or evaluate(arch)
        if known.get(arch.key) is None:
            known.add(arch.key, evaluation)
        values = evaluation.metrics["loss"], setup.costs(arch)[arguments.cost]
        points.setdefault(arch.key, values)
        study.tell(trial, values)
    return list(points.values())


def _summary(arguments: argparse.Namespace, parts: dict[tuple[str, int], np.ndarray]) -> dict[str, object]:
    everything = np.concatenate(list(parts.values()))
    low, high = everything.min(axis=0), everything.max(axis=0)
    curves = {part: _curve((points - low) / (high - low)) for part, points in parts.items()}
    marks = [mark for mark in MARKS if mark <= arguments.trials]
    line: dict[str, object] = {"benchmark": "search_efficiency", "run": arguments.run, "cost": arguments.cost,
                               "architectures": len(everything), "seeds": arguments.seeds}
    for sampler in SAMPLERS:
        of = [curves[sampler, seed] for seed in range(arguments.seeds)]
        line[sampler] = {str(mark): round(float(np.mean([curve[mark - 1] for curve in of])), 4)
                         for mark in marks if all(mark <= len(curve) for curve in of)}
    goal = float(np.mean([curves["nsga2", seed][-1] for seed in range(arguments.seeds)]))
    line["evaluations_to_nsga2_at_the_end"] = {
        sampler: [int(np.argmax(curve >= goal)) + 1 if curve.max() >= goal else None
                  for curve in (curves[sampler, seed] for seed in range(arguments.seeds))] for sampler in SAMPLERS}
    return line


def _curve(points: np.ndarray) -> np.ndarray:
    volume = Hypervolume([1.0, 1.0])
    return np.array([volume.add(point) for point in points])


def _write(path: Path, points: list[tuple[float, float]]) -> None:
    with path.with_suffix(".part").open("w", newline="") as file:
        csv.writer(file).writerows(points)
    path.with_suffix(".part").rename(path)


def _read(path: Path) -> np.ndarray:
    return np.loadtxt(path, delimiter=",", ndmin=2)


if __name__ == "__main__":
    main()
