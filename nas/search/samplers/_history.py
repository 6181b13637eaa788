"""A study's trials as a batch sees them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from nas.search.samplers._batch import improve, start
from nas.search.samplers._encoding import Encoding, Floats, Params
from nas.search.samplers._pool import Fact, Known, Pool
from nas.search.samplers._views import Evaluated

Told = tuple[Floats, Fact]
LEAST = 4
"""How many evaluations a model needs."""


@dataclass(frozen=True)
class Plan:
    """Everything a batch depends on.

    Args:
        before: the finished trials it is computed from.
        rectangular: whether every trial has exactly these parameters.
    """

    first: int
    before: list[FrozenTrial]
    space: Mapping[str, BaseDistribution]
    signs: tuple[int, ...]
    rectangular: bool


def plan(study: Study, trials: Sequence[FrozenTrial], space: Mapping[str, BaseDistribution], first: int,
         declared: bool) -> Plan:
    """What the batch that starts at trial number `first` depends on.

    Args:
        declared: whether the user said that every trial has these parameters.
    """
    before = [one for one in trials if one.number < first and one.state.is_finished()]
    signs = tuple(-1 if one == StudyDirection.MAXIMIZE else 1 for one in study.directions)
    same = declared or all(one.params.keys() == space.keys() for one in trials if one.state == TrialState.COMPLETE)
    return Plan(first, before, space, signs, same)


def finished_before(trials: Sequence[FrozenTrial], number: int) -> list[FrozenTrial]:
    """The trials before a number that ran to their end, so that all their parameters are known."""
    ended = (TrialState.COMPLETE, TrialState.PRUNED)
    return [one for one in trials if one.number < number and one.state in ended]


class Ledger:
    """The rows of trials and what is known of them; finished ones are remembered, for every batch asks again."""

    def __init__(self, encoding: Encoding, known: Known) -> None:
        self.encoding, self.known = encoding, known
        self._finished: dict[int, tuple[FrozenTrial, Told | None]] = {}

    def told(self, trials: Sequence[FrozenTrial]) -> list[Told | None]:
        """The row of each trial and its facts; None while it lacks parameters, or where it has others."""
        old, self._finished = self._finished, {}
        found = []
        for trial in trials:
            kept = old.get(id(trial))
            one = kept[1] if kept and kept[0] is trial else self._read(trial)
            if trial.state.is_finished():
                self._finished[id(trial)] = trial, one
            found.append(one)
        return found

    def _read(self, trial: FrozenTrial) -> Told | None:
        try:
            row = self.encoding.row(trial.params)
        except (KeyError, ValueError):
            return None
        return row, self.known.fact({name: trial.params[name] for name in self.encoding.names})


class Batch:
    """Points to evaluate, in order.

    Args:
        size: how many are chosen with care; what else was found follows.
    """

    def __init__(self, wanted: Plan, ledger: Ledger, seed: int, size: int) -> None:
        self._ledger = ledger
        exact = ledger.known.objectives
        rng = np.random.default_rng([seed, wanted.first])
        signs = np.array(wanted.signs, dtype=float)
        self._pool = Pool(ledger.encoding, ledger.known, signs[exact])
        seen, taken = self._evaluated(wanted.before, signs)
        if len(seen.values) >= LEAST:
            self._order = improve(self._pool, taken, seen, exact, size, rng)
        else:
            self._order = start(self._pool, taken, size, rng)

    def _evaluated(self, trials: Sequence[FrozenTrial], signs: Floats) -> tuple[Evaluated, set[int]]:
        """What can be learnt from, and every point that was tried."""
        told = [(trial, *one) for trial, one in zip(trials, self._ledger.told(trials)) if one]
        places = self._pool.add_trials([row for _, row, _ in told], [fact for _, _, fact in told])
        good = [(place, trial.values) for place, (trial, _, _) in zip(places, told)
                if usable(trial) and self._pool.violation[place] <= 0]
        values = np.array([one for _, one in good], dtype=float).reshape(len(good), len(signs)) * signs
        return Evaluated(np.array([place for place, _ in good], dtype=np.int64), values), set(places.tolist())

    def next(self, others: Sequence[FrozenTrial], number: int) -> Params:
        """The first of the batch that no other trial has, nor a running one will take before trial `number`."""
        told = self._ledger.told(others)
        names = {one[1].name for one in told if one}
        ahead = sum(one is None and trial.state == TrialState.RUNNING and trial.number < number
                    for trial, one in zip(others, told))
        left = [one for one in self._order if self._pool.names[one] not in names]
        if left:
            return self._pool.params(left[ahead % len(left)])
        feasible = np.flatnonzero(self._pool.violation <= self._pool.violation.min(initial=math.inf))
        return self._pool.params(int(feasible[number % len(feasible)]))


def usable(trial: FrozenTrial) -> bool:
    """Whether a model may learn from a trial: it was evaluated, and was not found infeasible."""
    if trial.state != TrialState.COMPLETE or not all(map(math.isfinite, trial.values)):
        return False
    noted = [value for name, value in trial.system_attrs.items() if name.startswith("constraints:")]
    return all(value <= 0 for value in [*noted, *(trial.system_attrs.get("constraints") or ())])
