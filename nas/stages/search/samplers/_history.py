"""The trials of a study as input of a batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from nas.core.pareto import Bools, Floats
from nas.stages.search.samplers._activity import Activity
from nas.stages.search.samplers._encoding import Encoding
from nas.stages.search.samplers._known import Fact, Known
from nas.stages.search.samplers._scales import hull

ENDED = (TrialState.COMPLETE, TrialState.PRUNED)
"""States of trials that ran to their end, or nearly: their parameters are known."""


@dataclass(frozen=True)
class HistoryPlan:
    """Everything a batch depends on.

    Args:
        before: the finished trials it is computed from.
        startup: whether it is the batch that a study starts with.
        declared: whether the user declared that every trial has these parameters.
        conditional: the trials to learn from which parameters exist, given the others; empty if all have all.
    """

    before: list[FrozenTrial]
    startup: bool
    space: Mapping[str, BaseDistribution]
    signs: tuple[int, ...]
    declared: bool
    conditional: list[FrozenTrial]

    def holds(self, first: int, trials: Sequence[FrozenTrial]) -> bool:
        """Whether a batch that starts there has this plan for certain: all trials before it have ended."""
        return 0 < first == len(self.before) and trials[first - 1] is self.before[-1]

    @property
    def guessing(self) -> bool:
        """Whether a trial may have other parameters than these."""
        return not self.declared or bool(self.conditional)


def plan(study: Study, trials: Sequence[FrozenTrial], space: Mapping[str, BaseDistribution], first: int, number: int,
         declared: bool) -> HistoryPlan:
    """What the batch of trial `number` depends on, which starts at trial number `first`.

    Args:
        declared: whether the user declared that every trial has these parameters.
    """
    before = [one for one in trials if one.number < first and one.state.is_finished()]
    signs = tuple(-1 if one == StudyDirection.MAXIMIZE else 1 for one in study.directions)
    whole = [one for one in sources(trials, first, number) if one.state == TrialState.COMPLETE]
    lacking = any(not space.keys() <= one.params.keys() for one in whole)
    return HistoryPlan(before, not first, space, signs, declared, whole if lacking else [])


def sources(trials: Sequence[FrozenTrial], first: int, number: int) -> list[FrozenTrial]:
    """The trials that a batch learns its parameters from; at the start of a study, all before this trial."""
    before = [one for one in trials if one.number < number and one.state in ENDED]
    return [one for one in before if one.number < first] or before


class Union:
    """Every parameter of some trials, with a distribution that contains all of its values; trials are only added."""

    def __init__(self) -> None:
        self._trials: list[FrozenTrial] = []
        self._space: dict[str, BaseDistribution] = {}

    def of(self, trials: list[FrozenTrial]) -> dict[str, BaseDistribution]:
        """The parameters of these trials."""
        if trials[:len(self._trials)] != self._trials:
            self._trials, self._space = [], {}
        for one in trials[len(self._trials):]:
            for name, distribution in one.distributions.items():
                old = self._space.get(name)
                self._space[name] = distribution if old is None else hull([old, distribution])
        self._trials = trials
        return dict(self._space)


@dataclass(frozen=True)
class Observation:
    """A trial as a row, its parameters, and known facts about them."""

    row: Floats
    present: Bools
    fact: Fact


class Ledger:
    """The rows of trials and what is known of them; finished ones are cached for later batches.

    Trials come in the order of their numbers. Those before the first unfinished one never change.

    Args:
        conditional: whether trials may lack parameters.
        check: called once for every completed trial.
    """

    def __init__(self, encoding: Encoding, known: Known, conditional: bool,
                 check: Callable[[FrozenTrial, Fact], None]) -> None:
        self.encoding, self.known, self._conditional, self._check = encoding, known, conditional, check
        self._settled: list[FrozenTrial] = []
        self._observations: list[Observation | None] = []
        self._names: set[Hashable] = set()
        self._finished: dict[int, tuple[FrozenTrial, Observation | None]] = {}

    def observations(self, trials: Sequence[FrozenTrial]) -> list[Observation | None]:
        """Each trial as a row; None while it lacks parameters, or where it has others."""
        old, self._finished = self._finished, {}
        self._settle(trials, old)
        return [*self._observations, *(self._remembered(trial, old) for trial in trials[len(self._settled):])]

    def observations_of(self, trials: Sequence[FrozenTrial]) -> list[Observation | None]:
        """The same for some of a study's finished trials."""
        known = {id(trial): (trial, one) for trial, one in zip(self._settled, self._observations)} | self._finished
        return [self._remembered(trial, known) for trial in trials]

    def untried(self, names: Sequence[Hashable], rows: Floats, trials: Sequence[FrozenTrial], number: int,
                start: int, activity: Activity | None) -> tuple[list[int], int]:
        """The places of names that no trial but `number` has, and how many running ones before it have none yet.

        Args:
            rows: those of the names.
            start: the number of settled trials that the names were chosen after. A later one may have had other
                parameters than was thought: it is known by those that it has.
        """
        observations = self.observations(trials)
        rest = [(trial, one if one and _is_whole(trial, one, activity) else None)
                for trial, one in zip(trials[len(self._settled):], observations[len(self._settled):])
                if trial.number != number]
        late = {one.fact.name for _, one in rest if one}
        ahead = sum(one is None and trial.state == TrialState.RUNNING and trial.number < number for trial, one in rest)
        free = np.array([name not in self._names and name not in late for name in names], dtype=bool)
        if self._conditional:
            for trial, one in [*zip(trials[start:], observations[start:len(self._settled)]), *rest]:
                if one and trial.state == TrialState.COMPLETE:
                    free &= ~self._matches(rows, trial, one)
        return np.flatnonzero(free).tolist(), ahead

    def _matches(self, rows: Floats, trial: FrozenTrial, one: Observation) -> Bools:
        """Whether a trial has the values of each row, as far as its own ranges have them."""
        matches = np.ones(len(rows), dtype=bool)
        for column in np.flatnonzero(one.present).tolist():
            scale, numbers = self.encoding.dimensions[column].scale, rows[:, column]
            if scale is not None:
                own = trial.distributions[self.encoding.names[column]]
                low, high = scale.number(own.low), scale.number(own.high)  # type: ignore[attr-defined]
                numbers = np.clip(numbers, low, high)
            matches &= np.abs(numbers - one.row[column]) <= 1e-9
        return matches

    def _settle(self, trials: Sequence[FrozenTrial], old: Mapping[int, tuple[FrozenTrial, Observation | None]]) -> None:
        done = len(self._settled)
        if done and (len(trials) < done or trials[done - 1] is not self._settled[-1]):  # another study's
            self._settled, self._observations, self._names = [], [], set()
        for trial in trials[len(self._settled):]:
            if not trial.state.is_finished():
                break
            one = self._remembered(trial, old)
            self._settled.append(trial)
            self._observations.append(one)
            self._names.update([one.fact.name] if one else [])

    def _remembered(self, trial: FrozenTrial,
                    old: Mapping[int, tuple[FrozenTrial, Observation | None]]) -> Observation | None:
        kept = old.get(id(trial))
        one = kept[1] if kept and kept[0] is trial else self._read(trial)
        if trial.state.is_finished():
            self._finished[id(trial)] = trial, one
        return one

    def _read(self, trial: FrozenTrial) -> Observation | None:
        try:
            fill = np.random.default_rng([trial.number, 1]) if self._conditional else None
            row = self.encoding.row(trial.params, fill)
        except (KeyError, ValueError, TypeError):
            return None
        present = np.array([name in trial.params for name in self.encoding.names], dtype=bool)
        params = {name: trial.params[name] for name in sorted(trial.params)}
        try:
            fact = self.known.facts([params], [self.known.name(params, self.encoding.label(row, params))])[0]
        except Exception:
            if trial.state == TrialState.COMPLETE:
                raise
            return None  # it may lack parameters that the user's functions read
        if trial.state == TrialState.COMPLETE:
            self._check(trial, fact)
        return Observation(row, present, fact)


def _is_whole(trial: FrozenTrial, one: Observation, activity: Activity | None) -> bool:
    """Whether a trial has all the parameters that it will have."""
    if trial.state == TrialState.COMPLETE:
        return True
    return bool(one.present.all() if activity is None else (one.present == activity(one.row[None])[0]).all())


def usable(trial: FrozenTrial) -> bool:
    """Whether a model may learn from a trial: it was evaluated, and was not found infeasible."""
    if trial.state != TrialState.COMPLETE or not all(map(math.isfinite, trial.values)):
        return False
    noted = [value for name, value in trial.system_attrs.items() if name.startswith("constraints:")]
    return all(value <= 0 for value in [*noted, *(trial.system_attrs.get("constraints") or ())])
