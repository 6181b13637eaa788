"""How good the predictor sampler is, and how fast: hypervolume against evaluations, and milliseconds a suggestion.

    python benchmarks/predictor_sampler.py [--trials 1000] [--seeds 3] [--problems additive masked saturating]

Random search, Optuna's NSGA-II and multivariate TPE for comparison. Samplers see a noisy loss; the hypervolume is that
of the true losses. Prints one JSON line: per problem and sampler the mean over the seeds, as a share of the best found
by any; `reached` is the number of evaluations after which the predictor, on the mean, has what NSGA-II has at the end.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import optuna
from _problems import Problem, make_problem
from optuna.distributions import CategoricalDistribution
from optuna.trial import create_trial

from nas.stages.search.samplers import PredictorSampler

CHECKPOINTS = (20, 50, 100, 200, 400, 1000)
DIMENSIONS = 60


def sampler(name: str, problem: Problem, seed: int) -> optuna.samplers.BaseSampler:
    if name == "predictor":
        return PredictorSampler(exact={1: problem.cost}, key=problem.key, seed=seed)
    if name == "tpe":
        return optuna.samplers.TPESampler(multivariate=True, seed=seed)
    return {"random": optuna.samplers.RandomSampler, "nsga2": optuna.samplers.NSGAIISampler}[name](seed=seed)


def searched(name: str, problem: Problem, seed: int, trials: int) -> list[tuple[float, float]]:
    """The true values of every trial."""
    rng = np.random.default_rng(seed)
    study = optuna.create_study(directions=["minimize"] * 2, sampler=sampler(name, problem, seed))
    points = []
    for _ in range(trials):
        trial = study.ask(problem.distributions)
        loss, cost = problem.loss(trial.params), problem.cost(trial.params)
        study.tell(trial, [loss + problem.noise * rng.standard_normal(), cost])
        points.append((loss, cost))
    return points


def hypervolume(points: list[tuple[float, float]], reference: tuple[float, float]) -> float:
    area, edge = 0.0, reference[0]
    for loss, cost in sorted(points, key=lambda point: (point[1], point[0])):
        if loss < edge and cost < reference[1]:
            area += (edge - loss) * (reference[1] - cost)
            edge = loss
    return area


def job(task: tuple[str, str, int, int]) -> list[float]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    problem_name, name, seed, trials = task
    problem = make_problem(problem_name, seed)
    points = searched(name, problem, seed, trials)
    return [hypervolume(points[:n], problem.reference) for n in range(1, trials + 1)]


def suggestion_ms(n_trials: int = 1000, batches: int = 2) -> float:
    """Milliseconds a suggestion, over whole batches, with the exact cost in Python."""
    rng = np.random.default_rng(0)
    space = {f"g{i:02d}": CategoricalDistribution((0, 1, 2, 3)) for i in range(DIMENSIONS)}
    price: Callable[[dict[str, Any]], float] = lambda params: float(sum(params.values()))  # noqa: E731
    one = PredictorSampler(exact={1: price}, key=lambda params: tuple(params.values()), seed=0)
    study = optuna.create_study(directions=["minimize"] * 2, sampler=one)
    for _ in range(n_trials):
        params = {name: int(rng.integers(4)) for name in space}
        study.add_trial(create_trial(params=params, distributions=space,
                                     values=[rng.normal() - price(params), price(params)]))
    while (n_trials - one.n_startup) % one.batch:
        study.tell(study.ask(space), [0.0, 0.0])
        n_trials += 1
    seconds = 0.0
    for _ in range(batches * one.batch):
        new_trial = study.ask()
        start = time.perf_counter()
        trial = study.get_trials(deepcopy=False)[-1]
        params = one.sample_relative(study, trial, one.infer_relative_search_space(study, trial))
        seconds += time.perf_counter() - start
        for name, distribution in space.items():
            new_trial._suggest(name, distribution)
        study.tell(new_trial, [rng.normal() - price(params), price(params)])
    return 1e3 * seconds / (batches * one.batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--problems", nargs="+", default=["additive", "masked", "saturating"])
    parser.add_argument("--samplers", nargs="+", default=["random", "nsga2", "tpe", "predictor"])
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tasks = [(problem, name, seed, options.trials) for problem in options.problems for name in options.samplers
             for seed in range(options.seeds)]
    ms = suggestion_ms()
    with ProcessPoolExecutor(options.workers) as workers:
        curves = dict(zip(tasks, workers.map(job, tasks)))
    print(json.dumps({"benchmark": "predictor_sampler", "seeds": options.seeds, "ms": round(ms, 1),
                      "problems": {name: summary(name, curves, options) for name in options.problems}}))


def summary(problem: str, curves: dict[tuple[str, str, int, int], list[float]], options: argparse.Namespace) -> Any:
    top = [max(curve[-1] for task, curve in curves.items() if task[0] == problem and task[2] == seed)
           for seed in range(options.seeds)]
    mean = {name: np.mean([np.array(curves[problem, name, seed, options.trials]) / top[seed]
                           for seed in range(options.seeds)], axis=0) for name in options.samplers}
    summary: dict[str, Any] = {name: {str(n): round(float(curve[n - 1]), 3) for n in CHECKPOINTS if n <= len(curve)}
                             for name, curve in mean.items()}
    if {"nsga2", "predictor"} <= set(mean):
        ahead = np.flatnonzero(mean["predictor"] >= mean["nsga2"][-1])
        summary["reached"] = int(ahead[0]) + 1 if len(ahead) else None
    return summary


if __name__ == "__main__":
    main()
