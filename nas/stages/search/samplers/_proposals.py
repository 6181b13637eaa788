"""The proposals of a batch, in order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from optuna.trial import FrozenTrial

from nas.core.pareto import Floats
from nas.stages.search.samplers._activity import Activity
from nas.stages.search.samplers._batch import improve, start
from nas.stages.search.samplers._history import HistoryPlan, Ledger, usable
from nas.stages.search.samplers._pool import CandidatePool
from nas.stages.search.samplers._problem import Params
from nas.stages.search.samplers._scales import tamed
from nas.stages.search.samplers._views import Evaluated

LEAST = 4
"""How many evaluations a model needs."""


class ProposalBatch:
    """Points to evaluate, in order.

    Args:
        size: number of optimised points; other candidates follow.
    """

    def __init__(self, wanted: HistoryPlan, ledger: Ledger, seed: int, size: int) -> None:
        self._ledger, self._start = ledger, len(wanted.before)
        exact = ledger.known.objectives
        rng = np.random.default_rng([seed, len(wanted.before)])
        signs = np.array(wanted.signs, dtype=float)
        self._activity = self._learnt(wanted.conditional)
        self._pool = CandidatePool(ledger.encoding, ledger.known, signs[exact], self._activity, wanted.guessing)
        seen, taken = self._evaluated(wanted.before, signs)
        if len(seen.values) >= LEAST:
            self._order = improve(self._pool, taken, seen, exact, size, len(wanted.before), rng)
        else:
            self._order = start(self._pool, taken, size, rng)

    def _learnt(self, trials: Sequence[FrozenTrial]) -> Activity | None:
        observations = [one for one in self._ledger.observations_of(trials) if one]
        if not observations:
            return None
        ordered = np.array([one.ordered for one in self._ledger.encoding.dimensions])
        return Activity(np.array([one.row for one in observations]), np.array([one.present for one in observations]),
                        ordered)

    def _evaluated(self, trials: Sequence[FrozenTrial], signs: Floats) -> tuple[Evaluated, set[int]]:
        """What can be learnt from, and every point that was tried."""
        observed = [(trial, one) for trial, one in zip(trials, self._ledger.observations(trials)) if one]
        places = self._pool.add_trials([one.row for _, one in observed], [one.present for _, one in observed],
                                       [one.fact for _, one in observed])
        good = [(place, trial.values) for place, (trial, _) in zip(places, observed)
                if usable(trial) and self._pool.violation[place] <= 0]
        values = np.array([one for _, one in good], dtype=float).reshape(len(good), len(signs)) * signs
        return Evaluated(np.array([place for place, _ in good], dtype=np.int64), tamed(values)), set(places.tolist())

    def next(self, trials: Sequence[FrozenTrial], number: int) -> Params:
        """The first of the batch that no other trial has, nor a running one will take before trial `number`."""
        names = [self._pool.names[one] for one in self._order]
        rows = self._pool.rows[self._order]
        left, ahead = self._ledger.untried(names, rows, trials, number, self._start, self._activity)
        if left:
            return self._pool.params(self._order[left[ahead % len(left)]])
        feasible = np.flatnonzero(self._pool.violation <= self._pool.violation.min(initial=math.inf))
        return self._pool.params(int(feasible[number % len(feasible)]))
