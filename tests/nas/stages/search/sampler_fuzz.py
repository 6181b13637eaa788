"""Random Optuna studies for `PredictorSampler`: no exception, no hang, no value outside its distribution.

    python -m tests.nas.stages.search.sampler_fuzz --studies 2000 --seed 0

Prints one summary line; the failing studies go to stderr, each with the `--only` number that repeats it.
"""

from __future__ import annotations

import argparse
import collections
import math
import random
import signal
import sys
import traceback
import warnings
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import Trial, TrialState

from nas.stages.search.samplers import PredictorSampler

LIMIT_S = 30.0
"""Processor seconds a study may take before it counts as a hang; a usual one takes less than one."""
SCALES = (1.0, 1.0, 1.0, 1e6, 1e-12, 1e-300, 1e150, 1e300, 1.7e308)
CHOICES = ((0, 1), (False, True), ("a", "b", "c"), (1, True, 1.0), (None, "x"), ([1, 2], [3]), (64, 128, 256), ("one",),
           tuple(range(12)), ({"k": 1}, {"k": 2}), (math.nan, 1.0), (0.1, "0.1", None))
FLOATS = ((0.0, 1.0), (-5.0, 5.0), (0.1, 0.7), (-1.7e308, 1.7e308), (1e-300, 2e-300), (0.0, 1e308), (1.0, 1.0 + 1e-15))
LOGS = ((1e-5, 1.0), (1e-300, 1e300), (1.0, 1e308), (5e-324, 1.0), (1.0, 1.0000000001))
INTS = ((0, 3), (0, 1), (1, 200), (-50, 50), (0, 2**53), (-(2**40), 2**40))


class Hang(BaseException):
    """A study took longer than it may; no `except Exception` swallows it."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a random study.

    Args:
        parent: the name of a categorical parameter and the choices under which this one exists.
        dynamic: whether the range changes from trial to trial.
    """

    name: str
    distribution: BaseDistribution
    parent: tuple[str, frozenset[int]] | None = None
    dynamic: bool = False


@dataclass
class Tally:
    """What became of the studies."""

    studies: int = 0
    trials: int = 0
    exceptions: int = 0
    hangs: int = 0
    outside: int = 0
    kinds: collections.Counter[str] = field(default_factory=collections.Counter)

    def add(self, other: Tally) -> None:
        self.studies += other.studies
        self.trials += other.trials
        self.exceptions += other.exceptions
        self.hangs += other.hangs
        self.outside += other.outside
        self.kinds.update(other.kinds)

    def __str__(self) -> str:
        return (f"studies {self.studies} trials {self.trials} exceptions {self.exceptions} hangs {self.hangs} "
                f"proposals outside their distribution {self.outside}")


def distribution(rng: random.Random) -> BaseDistribution:
    kind = rng.choice(["choice", "choice", "float", "log", "step", "int", "int", "log int", "step int", "single"])
    if kind == "choice":
        return CategoricalDistribution(rng.choice(CHOICES))
    if kind == "float":
        return FloatDistribution(*rng.choice(FLOATS))
    if kind == "log":
        return FloatDistribution(*rng.choice(LOGS), log=True)
    if kind == "step":
        low, step = rng.choice([(0.1, 0.1), (0.0, 0.25), (-3.0, 0.7), (100.0, 1e-3), (0.0, 1e300)])
        return FloatDistribution(low, low + step * rng.choice([1, 5, 6, 30]), step=step)
    if kind == "log int":
        return IntDistribution(1, rng.choice([2, 9, 4096, 2**40]), log=True)
    if kind == "step int":
        return IntDistribution(1, rng.choice([4, 30, 1000]), step=rng.choice([2, 3]))
    return IntDistribution(7, 7) if kind == "single" else IntDistribution(*rng.choice(INTS))


def space(rng: random.Random) -> list[Parameter]:
    found: list[Parameter] = []
    conditional, dynamic = rng.random() < 0.5, rng.random() < 0.3
    for i in range(rng.choice([1, 1, 2, 3, 5, 8])):
        spread = distribution(rng)
        parents = [one for one in found if isinstance(one.distribution, CategoricalDistribution)]
        parent = None
        if conditional and parents and rng.random() < 0.6:
            one = rng.choice(parents)
            n = len(one.distribution.choices)  # type: ignore[attr-defined]
            parent = one.name, frozenset(rng.sample(range(n), rng.randint(1, max(n - 1, 1))))
        ranged = isinstance(spread, (FloatDistribution, IntDistribution)) and not spread.log
        found.append(Parameter(f"p{i}", spread, parent, dynamic and ranged and rng.random() < 0.5))
    return found


def narrowed(spread: BaseDistribution, rng: random.Random) -> BaseDistribution:
    """A part of a range, as a trial may ask for."""
    low, high = spread.low, spread.high  # type: ignore[attr-defined]
    if isinstance(spread, IntDistribution):
        return IntDistribution(low, rng.randint(low, high), step=1)
    return FloatDistribution(low, low * 0.5 + high * 0.5 if rng.random() < 0.5 else high)


def suggest(trial: Trial, parameters: list[Parameter], rng: random.Random) -> dict[str, Any]:
    """The values of a trial, asked for one after the other as an objective function does."""
    found: dict[str, Any] = {}
    places: dict[str, int] = {}
    for one in parameters:
        if one.parent is not None and places.get(one.parent[0]) not in one.parent[1]:
            continue
        spread = narrowed(one.distribution, rng) if one.dynamic else one.distribution
        found[one.name] = trial._suggest(one.name, spread)
        if isinstance(spread, CategoricalDistribution):
            places[one.name] = int(spread.to_internal_repr(found[one.name]))
    return found


def value_of(params: dict[str, Any], salt: int) -> float:
    """Some number between -1 and 1 that depends on the parameters, and smoothly on the numbers among them."""
    total = 0.0
    for name, value in params.items():
        weight = 1 + zlib.crc32(f"{name}/{salt}".encode()) % 7
        number = isinstance(value, (int, float)) and math.isfinite(value)
        total += weight * (math.tanh(value) if number else zlib.crc32(f"{value}{salt}".encode()) / 2**32)
    return math.sin(total)


class RandomStudy:
    """A study that a seed makes: space, objectives, sampler, and what happens to its trials."""

    def __init__(self, seed: str) -> None:
        self.rng = rng = random.Random(seed)
        self.parameters = space(rng)
        self.scales = [rng.choice(SCALES) for _ in range(rng.choice([1, 1, 2, 2, 3, 4]))]
        self.constant = rng.random() < 0.05
        self.study = optuna.create_study(directions=[rng.choice(["minimize", "maximize"]) for _ in self.scales],
                                         sampler=self.sampler())
        self.bad = rng.choice([0.0, 0.0, 0.3, 0.9])
        self.n_trials, self.together = rng.choice([6, 12, 24]), rng.choice([1, 1, 1, 4, 9])

    def objective(self, params: dict[str, Any], number: int) -> float:
        return self.scales[number] * (0.5 if self.constant else value_of(params, number))

    def sampler(self) -> PredictorSampler:
        rng, options = self.rng, {}
        flat = not any(one.parent or one.dynamic for one in self.parameters)
        exact = [i for i in range(len(self.scales)) if rng.random() < 0.3]
        if rng.random() < 0.3:
            options["exact_many"] = {i: lambda some, i=i: [self.objective(one, i) for one in some] for i in exact}
        else:
            options["exact"] = {i: self._strict(i) for i in exact}
        if rng.random() < 0.3:
            options["key"] = rng.choice([lambda params: 1, lambda params: repr(sorted(params.items())),
                                         lambda params: repr(params["p0"])])
        if rng.random() < 0.3:
            options["constraints"] = [lambda params: value_of(params, 9) - rng_limit]
            rng_limit = rng.choice([-2.0, 0.0, 0.5, math.nan])
        if flat and rng.random() < 0.4:
            options["distributions"] = {one.name: one.distribution for one in self.parameters}
        if flat and rng.random() < 0.2:
            options["active"] = lambda params: [name for name in params if name != "p1" or value_of(params, 5) > 0]
        if rng.random() < 0.2:
            options["hints"] = lambda some: [[value_of(one, 7), math.inf, 1e308 * value_of(one, 8)] for one in some]
        return PredictorSampler(seed=rng.randrange(100), n_startup=rng.choice([1, 2, 4, 8]),
                                batch=rng.choice([1, 2, 8, 16]), **options)

    def _strict(self, objective: int) -> Any:
        """An exact objective that reads the parameters by name, as a user writes it for a conditional space."""
        def exact(params: dict[str, Any]) -> float:
            places = {one.name: int(one.distribution.to_internal_repr(params[one.name])) for one in self.parameters
                      if isinstance(one.distribution, CategoricalDistribution) and one.name in params}
            wanted = [one.name for one in self.parameters
                      if one.parent is None or places.get(one.parent[0]) in one.parent[1]]
            return self.objective({name: params[name] for name in wanted}, objective)
        return exact

    def run(self) -> tuple[int, int]:
        """Run all trials. Returns their number, and how many values were outside their distributions."""
        while len(self.study.trials) < self.n_trials:
            if self.rng.random() < 0.1:
                self._enqueue()
            waiting = [self.study.ask() for _ in range(self.together)]
            self.rng.shuffle(waiting)
            for trial in waiting:
                self._finish(trial)
        found = [(spread, value) for trial in self.study.trials
                 for spread, value in zip(trial.distributions.values(), trial.params.values())]
        return len(self.study.trials), sum(not spread._contains(spread.to_internal_repr(value))
                                           for spread, value in found)

    def _enqueue(self) -> None:
        some = [one for one in self.parameters if not one.dynamic and self.rng.random() < 0.7]
        params = {one.name: self.rng.choice(one.distribution.choices)
                  if isinstance(one.distribution, CategoricalDistribution)
                  else one.distribution.low for one in some}  # type: ignore[attr-defined]
        self.study.enqueue_trial(params)

    def _finish(self, trial: Trial) -> None:
        fate = self.rng.choice(["fail", "early", "nan", "inf", "pruned", "running"]) if (
            self.rng.random() < self.bad) else "complete"
        params = suggest(trial, self.parameters[:1] if fate == "early" else self.parameters, self.rng)
        values = [self.objective(params, i) for i in range(len(self.scales))]
        if fate == "pruned" and len(values) == 1:
            trial.report(values[0], 0)
        if fate in ("fail", "early", "pruned"):
            state = TrialState.PRUNED if fate == "pruned" else TrialState.FAIL
            self.study.tell(trial, state=state)
        elif fate != "running":
            self.study.tell(trial, [{"nan": math.nan, "inf": math.inf}.get(fate, one) for one in values],
                            skip_if_finished=True)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `Hang` after so many seconds of processor time."""
    def stop(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def fuzz(numbers: range, seed: int, verbose: bool = False, limit_s: float = LIMIT_S, strict: bool = False) -> Tally:
    """Run the studies of these numbers.

    Args:
        strict: whether a RuntimeWarning, such as numpy's of an overflow, counts as an exception.
    """
    tally = Tally()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    for number in numbers:
        tally.studies += 1
        try:
            with limited(limit_s), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if strict:
                    warnings.filterwarnings("error", category=RuntimeWarning)
                made = RandomStudy(f"{seed}/{number}")
                trials, outside = made.run()
            tally.trials += trials
            tally.outside += outside
            failed = f"{outside} values outside" if outside else ""
        except Hang:
            tally.hangs += 1
            failed = "hang"
        except Exception as error:
            tally.exceptions += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            failed = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
            if verbose:
                traceback.print_exc()
        if failed:
            tally.kinds[failed[:110]] += 1
            print(f"--only {number}: {failed[:200]}", file=sys.stderr, flush=True)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="run one study, with the traceback")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="processor seconds of a study")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--strict", action="store_true", help="count RuntimeWarnings as exceptions")
    options = parser.parse_args()
    alone = options.only is not None
    numbers = range(options.only, options.only + 1) if alone else range(options.studies)
    tally = Tally()
    with ProcessPoolExecutor(options.workers) as workers:
        shares = [numbers[i::options.workers] for i in range(options.workers)]
        for one in [workers.submit(fuzz, share, options.seed, alone, options.limit, options.strict)
                    for share in shares]:
            tally.add(one.result())
    print(tally)
    sys.exit(bool(tally.exceptions or tally.hangs or tally.outside))


if __name__ == "__main__":
    main()
