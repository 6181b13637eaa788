"""PredictorSampler beside Optuna's TPE, NSGA-II and random search, on other people's kinds of problems and on ours.

    python benchmarks/sampler_comparison.py --samplers predictor --version after --results benchmarks/results
    python benchmarks/sampler_comparison.py --samplers tpe nsga2 random --version optuna --results benchmarks/results

made `benchmarks/results/sampler_comparison.csv`; its rows of the version `before` are those of the first command with
the sampler that fitted every 8 trials and learnt only the parameters that all trials share.

Prints one JSON line per problem and sampler; `--results` appends one row per seed to `sampler_comparison.csv`. `value`
is the lowest objective for one objective, the hypervolume for two; on the synthetic architecture searches the
hypervolume of the true losses, as a multiple of what 500 random architectures reach.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import optuna
from _problems import make_problem
from _results import add_option, append
from optuna.samplers import BaseSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.trial import Trial
from predictor_sampler import hypervolume

from nas.stages.search.samplers import PredictorSampler


@dataclass(frozen=True)
class Task:
    """An objective function of trials, and what its values are worth."""

    objective: Callable[[Trial], Any]
    trials: int
    reference: tuple[float, float] | None = None
    """Of the hypervolume; None for one objective."""
    truth: Callable[[dict[str, Any]], tuple[float, float]] | None = None
    unit: float = 1.0
    options: Callable[[], dict[str, Any]] = dict
    """The arguments of the predictor besides its seed."""


def hartmann6(trial: Trial) -> float:
    x = np.array([trial.suggest_float(f"x{i}", 0, 1) for i in range(6)])
    a = np.array([[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8],
                  [17, 8, 0.05, 10, 0.1, 14]])
    p = 1e-4 * np.array([[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
                         [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]])
    return -float(np.array([1.0, 1.2, 3.0, 3.2]) @ np.exp(-(a * (x - p) ** 2).sum(axis=1)))


def branin(trial: Trial) -> float:
    x, y = trial.suggest_float("x", -5, 10), trial.suggest_float("y", 0, 15)
    return ((y - 5.1 * x**2 / (4 * math.pi**2) + 5 * x / math.pi - 6) ** 2
            + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10)


def rosenbrock(trial: Trial) -> float:
    """On the integers from -5 to 10, scaled; the least is 0."""
    x = [trial.suggest_int(f"x{i}", -5, 10) for i in range(5)]
    return float(sum(100 * (b - a**2) ** 2 + (1 - a) ** 2 for a, b in zip(x, x[1:]))) / 1e3


def conditional(trial: Trial) -> float:
    """The error of one of three models, each with settings of its own; the least is 0.05."""
    kind = trial.suggest_categorical("model", ["svm", "mlp", "forest"])
    if kind == "svm":
        c, gamma = trial.suggest_float("c", 1e-3, 1e3, log=True), trial.suggest_float("gamma", 1e-4, 10, log=True)
        return 0.08 + 0.02 * math.log10(c / 10) ** 2 + 0.03 * math.log10(gamma / 0.02) ** 2
    if kind == "forest":
        return 0.12 + 0.001 * abs(trial.suggest_int("trees", 10, 500) - 300) + 0.01 * abs(
            trial.suggest_int("max_depth", 2, 30) - 14)
    rate, layers = trial.suggest_float("rate", 1e-5, 1, log=True), trial.suggest_int("layers", 1, 4)
    units = [trial.suggest_int(f"units{i}", 8, 256, log=True) for i in range(layers)]
    return (0.05 + 0.03 * math.log10(rate / 3e-3) ** 2 + 0.02 * abs(layers - 3)
            + 0.01 * sum(math.log2(one / 64) ** 2 for one in units) / layers)


def conditional_pair(trial: Trial) -> tuple[float, float]:
    """Error and cost of a network of up to 5 layers, each with or without attention."""
    rate, gain, cost = trial.suggest_float("rate", 1e-5, 1e-1, log=True), 0.0, 0.0
    for i in range(trial.suggest_int("layers", 1, 5)):
        width = trial.suggest_int(f"width{i}", 16, 256, step=16)
        if trial.suggest_categorical(f"mixer{i}", ["conv", "attention"]) == "attention":
            heads = trial.suggest_categorical(f"heads{i}", [1, 2, 4, 8])
            gain, cost = gain + math.log2(width) * (1 + 0.05 * heads) / (1 + i / 4), cost + width * (1 + heads / 4)
        else:
            kernel = trial.suggest_int(f"kernel{i}", 3, 15, step=2)
            gain += math.log2(width) * (1.1 - 0.02 * abs(kernel - 7)) / (1 + i / 3)
            cost += width * kernel / 6
    return 100 / (1 + gain) + 2 * math.log10(rate / 1e-3) ** 2, cost / 20


def zdt1(trial: Trial) -> tuple[float, float]:
    x = [trial.suggest_float(f"x{i}", 0, 1) for i in range(6)]
    g = 1 + 9 * sum(x[1:]) / 5
    return x[0], g * (1 - math.sqrt(x[0] / g))


def architecture(name: str, exact: bool, seed: int) -> Task:
    """A made-up architecture search; its loss is noisy; with `exact`, the predictor can compute its cost."""
    problem = make_problem(name, seed)
    rng, noise = np.random.default_rng([seed, 1]), np.random.default_rng(seed)
    drawn = [{gene: one.choices[rng.integers(len(one.choices))] for gene, one in problem.distributions.items()}
             for _ in range(500)]

    def truth(params: dict[str, Any]) -> tuple[float, float]:
        return problem.loss(params), problem.cost(params)

    def objective(trial: Trial) -> tuple[float, float]:
        params = {gene: trial.suggest_categorical(gene, one.choices) for gene, one in problem.distributions.items()}
        loss, cost = truth(params)
        return loss + problem.noise * noise.standard_normal(), cost

    unit = hypervolume([truth(params) for params in drawn], problem.reference)
    options = {"exact": {1: problem.cost}, "key": problem.key, "distributions": problem.distributions} if exact else {}
    return Task(objective, 100, problem.reference, truth, unit, lambda: options)


PROBLEMS: dict[str, Callable[[int], Task]] = {
    "hartmann6": lambda seed: Task(hartmann6, 30), "branin": lambda seed: Task(branin, 30),
    "rosenbrock-int": lambda seed: Task(rosenbrock, 60), "conditional": lambda seed: Task(conditional, 60),
    "conditional-pair": lambda seed: Task(conditional_pair, 80, (25.0, 70.0)),
    "zdt1": lambda seed: Task(zdt1, 80, (1.1, 6.0)),
    **{f"{name}{suffix}": partial(architecture, name, bool(suffix)) for name in ("additive", "masked", "saturating")
       for suffix in ("", "+exact")}}
SAMPLERS: dict[str, Callable[..., BaseSampler]] = {
    "predictor": PredictorSampler, "tpe": TPESampler, "nsga2": NSGAIISampler, "random": RandomSampler}


def run(job: tuple[str, str, int, int | None]) -> tuple[float, float]:
    """What a sampler reaches, and the processor milliseconds a trial."""
    name, sampler, seed, trials = job
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    task = PROBLEMS[name](seed)
    task = replace(task, trials=trials or task.trials)
    options = task.options() if sampler == "predictor" else {}
    study = optuna.create_study(directions=["minimize"] * (1 if task.reference is None else 2),
                                sampler=SAMPLERS[sampler](seed=seed, **options))
    start = time.process_time()
    study.optimize(task.objective, n_trials=task.trials)
    ms = 1e3 * (time.process_time() - start) / task.trials
    if task.reference is None:
        return study.best_value, ms
    points = [task.truth(trial.params) if task.truth else tuple(trial.values) for trial in study.trials]
    return hypervolume(points, task.reference) / task.unit, ms  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=list(SAMPLERS))
    parser.add_argument("--seeds", type=int, help="default: 5 for architecture searches, 10 for the others")
    parser.add_argument("--trials", type=int, help="instead of the problem's own number")
    parser.add_argument("--version", default="", help="a name for the code that is measured")
    add_option(parser)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.workers) as workers:
        for problem in options.problems:
            slow = problem.removesuffix("+exact") in ("additive", "masked", "saturating")
            seeds = range(options.seeds or (5 if slow else 10))
            for sampler in options.samplers:
                jobs = [(problem, sampler, seed, options.trials) for seed in seeds]
                report(options, jobs, list(workers.map(run, jobs)))


def report(options: argparse.Namespace, jobs: Sequence[Any], results: Sequence[tuple[float, float]]) -> None:
    problem, sampler = jobs[0][:2]
    values, ms = np.array(results).T
    trials = options.trials or PROBLEMS[problem](0).trials
    print(json.dumps({"problem": problem, "sampler": sampler, "trials": trials, "seeds": len(jobs),
                      "mean": round(float(values.mean()), 4), "sd": round(float(values.std()), 4),
                      "cpu_ms_per_trial": round(float(ms.mean()), 1), "version": options.version}), flush=True)
    append(options.results, "sampler_comparison",
           [{"problem": problem, "sampler": sampler, "trials": trials, "seed": job[2], "value": f"{value:.6g}",
             "cpu_ms_per_trial": f"{one:.1f}", "version": options.version}
            for job, value, one in zip(jobs, values, ms)])


if __name__ == "__main__":
    main()
