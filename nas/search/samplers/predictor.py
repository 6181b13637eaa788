"""A sampler that learns what it cannot look up.

Quality has to be measured, but parameters and latency of an architecture are known at once. So the quality is learnt
from the trials, the exact objectives are used as they are, and an evolution over both finds what to evaluate next.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import intersection_search_space
from optuna.study import Study
from optuna.trial import FrozenTrial

from nas.search.samplers._encoding import Encoding, Params
from nas.search.samplers._history import Batch, Ledger, Plan, finished_before, plan
from nas.search.samplers._pool import Known
from nas.search.samplers._problem import Problem
from search_spaces.errors import InputError

EARLY = 6
"""For how many batches' worth of trials after the start batches are half as large."""


class PredictorSampler(BaseSampler):
    """Proposes, in batches, what is expected to add most to the front.

    Every suggestion is a function of the seed and the study's trials alone, so a search that was stopped goes on as if
    it had not been: a batch starts at a fixed trial number, is computed from the trials before that number, and a trial
    gets the first of it that no trial has.

    Args:
        exact: by the number of an objective, its exact value for parameters.
        key: the name of the architecture that parameters stand for; without it, all parameters differ.
        constraints: hold where they are 0 or less; no parameters that violate one are proposed where others are found.
        seed: without it, every sampler is different.
        exact_many: like `exact`, for many parameters in one call; used instead where both are given.
        distributions: the parameters of every trial. Without them, they are known after the first trial, which is
            random then.
        active: the names of the parameters that matter, given the others: a model is not told of the rest.
        hints: for many parameters in one call, numbers that a learnt objective may go with, such as multiply-adds;
            what is not finite counts as 0.
        n_startup: how many trials are spread over the exact objectives before any is predicted.
        batch: how many trials are proposed between two fits; at first half as many, for then each tells more.
    """

    def __init__(self, *, exact: Mapping[int, Callable[[Params], float]] = {},  # noqa: B006
                 key: Callable[[Params], Hashable] | None = None,
                 constraints: Sequence[Callable[[Params], float]] = (), seed: int | None = None,
                 exact_many: Mapping[int, Callable[[Sequence[Params]], Sequence[float]]] = {},  # noqa: B006
                 distributions: Mapping[str, BaseDistribution] | None = None,
                 active: Callable[[Params], Collection[str]] | None = None,
                 hints: Callable[[Sequence[Params]], Sequence[Sequence[float]]] | None = None, n_startup: int = 12,
                 batch: int = 16) -> None:
        if seed is not None and seed < 0:
            raise InputError("seed", f"{seed} is not allowed; allowed: 0 or more")
        if n_startup < 1 or batch < 1:
            raise InputError("n_startup, batch", f"{n_startup}, {batch} is not allowed; allowed: 1 or more")
        self._known = Known(dict(exact), dict(exact_many), key, tuple(constraints), active, hints)
        self._seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self._distributions = dict(distributions) if distributions is not None else None
        self.n_startup, self.batch = n_startup, batch
        self._shared: tuple[list[FrozenTrial], dict[str, BaseDistribution]] = [], {}
        self._ledger: Ledger | None = None
        self._batch: tuple[Plan, Batch] | None = None

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that were given, or that all trials before the batch have."""
        if self._distributions is not None:
            return dict(self._distributions)
        trials = study.get_trials(deepcopy=False)
        before = finished_before(trials, self._first(trial.number)) or finished_before(trials, trial.number)
        old, shared = self._shared
        if before[:len(old)] != old or not old:
            old, shared = before[:1], intersection_search_space(before[:1], include_pruned=True)
        for one in before[len(old):]:
            shared = {name: spread for name, spread in shared.items() if one.distributions.get(name) == spread}
        self._shared = before, shared
        return dict(shared)

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> Params:
        """The first of the batch that no trial has."""
        if not search_space:
            return {}
        self._check(study)
        trials = study.get_trials(deepcopy=False)
        first, declared = self._first(trial.number), self._distributions is not None
        if self._batch is None or not (declared and self._batch[0].holds(first, trials)):
            wanted = plan(study, trials, search_space, first, declared)
            if self._batch is None or self._batch[0] != wanted:
                size = self.batch if wanted.first else self.n_startup
                self._batch = wanted, Batch(wanted, self._read(wanted), self._seed, size)
        return self._batch[1].next(trials, trial.number)

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str,
                           param_distribution: BaseDistribution) -> Any:
        """A random value, for a parameter that not all trials have."""
        rng = np.random.default_rng([self._seed, trial.number, zlib.crc32(param_name.encode())])
        encoding = Encoding({param_name: param_distribution})
        return encoding.params(encoding.sample(rng, 1)[0])[param_name]

    def _first(self, number: int) -> int:
        """The number of the trial a batch starts at."""
        if number < self.n_startup:
            return 0
        early = number < self.n_startup + EARLY * self.batch
        return number - (number - self.n_startup) % (max(self.batch // 2, 1) if early else self.batch)

    def _read(self, wanted: Plan) -> Ledger:
        """Where trials are read; a trial of a changing space has parameters that nothing exact is known of."""
        old = self._batch[0] if self._batch else None
        if self._ledger is None or old is None or (old.space, old.rectangular) != (wanted.space, wanted.rectangular):
            self._ledger = Ledger(Encoding(wanted.space), self._known if wanted.rectangular else Known())
        return self._ledger

    def _check(self, study: Study) -> None:
        unknown = [one for one in self._known.objectives if not 0 <= one < len(study.directions)]
        if unknown:
            raise InputError("exact", f"objective {unknown[0]} is not one of the study's {len(study.directions)}")

PURE = True


def make(problem: Problem, seed: int) -> BaseSampler:
    """The sampler of a whole search."""
    return PredictorSampler(exact=problem.exact, key=problem.key, constraints=problem.constraints, seed=seed,
                            exact_many=problem.exact_many, distributions=problem.distributions, active=problem.active,
                            hints=problem.hints)
