"""A study's trials as a batch sees them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
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

    def holds(self, first: int, trials: Sequence[FrozenTrial]) -> bool:
        """Whether a batch that starts there has this plan for certain: all trials before it have ended."""
        return 0 < first == self.first == len(self.before) and trials[first - 1] is self.before[-1]


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
    """The rows of trials and what is known of them; finished ones are remembered, for every batch asks again.

    Trials come in the order of their numbers. Those before the first unfinished one never change.
    """

    def __init__(self, encoding: Encoding, known: Known) -> None:
        self.encoding, self.known = encoding, known
        self._settled: list[FrozenTrial] = []
        self._told: list[Told | None] = []
        self._names: set[Hashable] = set()
        self._finished: dict[int, tuple[FrozenTrial, Told | None]] = {}

    def told(self, trials: Sequence[FrozenTrial]) -> list[Told | None]:
        """The row of each trial and its facts; None while it lacks parameters, or where it has others."""
        old, self._finished = self._finished, {}
        self._settle(trials, old)
        return [*self._told, *(self._remembered(trial, old) for trial in trials[len(self._settled):])]

    def untried(self, names: Sequence[Hashable], trials: Sequence[FrozenTrial], number: int) -> tuple[list[int], int]:
        """The places of names that no trial but `number` has, and how many running ones before it have none yet."""
        told = self.told(trials)
        rest = [(trial, one) for trial, one in zip(trials[len(self._settled):], told[len(self._settled):])
                if trial.number != number]
        late = {one[1].name for _, one in rest if one}
        ahead = sum(one is None and trial.state == TrialState.RUNNING and trial.number < number for trial, one in rest)
        return [place for place, name in enumerate(names) if name not in self._names and name not in late], ahead

    def _settle(self, trials: Sequence[FrozenTrial], old: Mapping[int, tuple[FrozenTrial, Told | None]]) -> None:
        done = len(self._settled)
        if done and (len(trials) < done or trials[done - 1] is not self._settled[-1]):  # another study's
            self._settled, self._told, self._names = [], [], set()
        for trial in trials[len(self._settled):]:
            if not trial.state.is_finished():
                break
            one = self._remembered(trial, old)
            self._settled.append(trial)
            self._told.append(one)
            self._names.update([one[1].name] if one else [])

    def _remembered(self, trial: FrozenTrial, old: Mapping[int, tuple[FrozenTrial, Told | None]]) -> Told | None:
        kept = old.get(id(trial))
        one = kept[1] if kept and kept[0] is trial else self._read(trial)
        if trial.state.is_finished():
            self._finished[id(trial)] = trial, one
        return one

    def _read(self, trial: FrozenTrial) -> Told | None:
        try:
            row = self.encoding.row(trial.params)
        except (KeyError, ValueError):
            return None
        params = {name: trial.params[name] for name in self.encoding.names}
        return row, self.known.facts([params], [self.known.name(params)])[0]


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

    def next(self, trials: Sequence[FrozenTrial], number: int) -> Params:
        """The first of the batch that no other trial has, nor a running one will take before trial `number`."""
        left, ahead = self._ledger.untried([self._pool.names[one] for one in self._order], trials, number)
        if left:
            return self._pool.params(self._order[left[ahead % len(left)]])
        feasible = np.flatnonzero(self._pool.violation <= self._pool.violation.min(initial=math.inf))
        return self._pool.params(int(feasible[number % len(feasible)]))


def usable(trial: FrozenTrial) -> bool:
    """Whether a model may learn from a trial: it was evaluated, and was not found infeasible."""
    if trial.state != TrialState.COMPLETE or not all(map(math.isfinite, trial.values)):
        return False
    noted = [value for name, value in trial.system_attrs.items() if name.startswith("constraints:")]
    return all(value <= 0 for value in [*noted, *(trial.system_attrs.get("constraints") or ())])
