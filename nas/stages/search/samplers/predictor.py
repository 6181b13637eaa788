"""The predictor sampler: learns the objectives that cannot be looked up.

Quality must be evaluated, but parameters and latency of an architecture are known exactly. So quality is learned from
the trials, exact objectives are used directly, and an evolutionary search over both proposes what to evaluate next.
"""

from __future__ import annotations

import bisect
import math
import warnings
import zlib
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from nas.stages.search.samplers._encoding import Encoding
from nas.stages.search.samplers._history import ENDED, HistoryPlan, Ledger, Union, plan, sources
from nas.stages.search.samplers._known import Fact, Known
from nas.stages.search.samplers._problem import Params, Problem
from nas.stages.search.samplers._proposals import ProposalBatch
from nas.stages.search.samplers._scales import Scale
from search_spaces.errors import InputError

TOLERANCE = 1e-5
"""Maximum relative difference between an exact objective and its value in a trial: more than rounding to float32."""
REMEMBERED = 4096
"""How many of the latest proposals are remembered, for trials whose ranges differ from those proposed for."""
PER_FIT = 16
"""A batch has one trial per this many earlier trials: early trials are more informative."""
FEW = 16
"""With more parameters, a fit costs more and a trial is less informative: batches start at half their size."""


class PredictorSampler(BaseSampler):
    """Proposes, in batches, points with the largest expected contribution to the front.

    Every suggestion is a function of the seed and the study's trials alone, so a search that was stopped resumes with
    the same trials: a batch starts at a fixed trial number, is computed from the finished trials before that number,
    and a trial gets the first of it that no trial has.

    Define-by-run studies may have conditional parameters and ranges that change from trial to trial. Every parameter
    is learnt where it exists, and so is which ones exist, given the others. `exact`, `key` and `constraints` get the
    parameters that a trial would have.

    Args:
        exact: by the number of an objective, its exact value for parameters. Warns about trials with another value.
        key: the key of the architecture of parameters; without it, all parameters are distinct.
        constraints: hold where they are 0 or less; no parameters that violate one are proposed where others are found.
        seed: without it, every sampler is different.
        exact_many: like `exact`, for many parameters in one call; used instead where both are given.
        distributions: the parameters of every trial. Without them, they are learnt from the finished trials, and
            the first trial is random.
        active: the names of the parameters that matter, given the others: the model ignores the rest.
        hints: for many parameters in one call, numbers that may correlate with a learned objective, such as
            multiply-adds; what is not finite counts as 0.
        n_startup: how many trials are spread over the exact objectives before any is predicted.
        batch: how many trials are proposed between two fits; fewer at first, when each is more informative.
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
        self._known = Known(dict(exact), key, tuple(constraints), dict(exact_many), None, active, hints)
        self._seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self._distributions = dict(distributions) if distributions is not None else None
        self.n_startup, self.batch = n_startup, batch
        self._firsts: dict[int, list[int]] = {}
        self._union = Union()
        self._ledger: Ledger | None = None
        self._batch: tuple[HistoryPlan, ProposalBatch] | None = None
        self._proposed: dict[int, Params] = {}
        self._warned = False

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that were given, or that any trial before the batch has."""
        if self._distributions is not None:
            return dict(self._distributions)
        trials = study.get_trials(deepcopy=False)
        return self._union.of(sources(trials, self._first(trial.number, trials), trial.number))

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> Params:
        """The first of the batch that no trial has."""
        if not search_space:
            return {}
        self._check(study)
        trials = study.get_trials(deepcopy=False)
        first, declared = self._first(trial.number, trials), self._distributions is not None
        if self._batch is None or not (declared and self._batch[0].holds(first, trials)):
            wanted = plan(study, trials, search_space, first, trial.number, declared)
            if self._batch is None or self._batch[0] != wanted:
                size = self.n_startup if wanted.startup else self.batch
                self._batch = wanted, ProposalBatch(wanted, self._read(wanted), self._seed, size)
        proposal = self._batch[1].next(trials, trial.number)
        self._proposed[trial._trial_id] = proposal
        if len(self._proposed) > REMEMBERED:
            del self._proposed[next(iter(self._proposed))]
        return dict(proposal)

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str,
                           param_distribution: BaseDistribution) -> Any:
        """The value nearest to the proposed one, if the range of the trial differs; otherwise a random value."""
        proposed = self._proposed.get(trial._trial_id, {}).get(param_name)
        encoding = Encoding({param_name: param_distribution})
        if isinstance(proposed, (int, float)) and not isinstance(param_distribution, CategoricalDistribution):
            return Scale(param_distribution).within(proposed)  # type: ignore[arg-type]
        rng = np.random.default_rng([self._seed, trial.number, zlib.crc32(param_name.encode())])
        return encoding.params(encoding.sample(rng, 1)[0])[param_name]

    def _first(self, number: int, trials: Sequence[FrozenTrial]) -> int:
        """The number of the trial that the batch of a trial starts at."""
        if number < self.n_startup:
            return 0
        some = self._distributions
        if some is None:
            some = next((one.distributions for one in trials if one.state in ENDED and one.number < number), {})
        least = 1 if len(some) <= FEW else max(self.batch // 2, 1)
        firsts = self._firsts.setdefault(least, [self.n_startup])
        while firsts[-1] <= number:
            firsts.append(firsts[-1] + min(max(firsts[-1] // PER_FIT, least), self.batch))
        return firsts[bisect.bisect_right(firsts, number) - 1]

    def _read(self, wanted: HistoryPlan) -> Ledger:
        """The ledger that reads trials."""
        old = self._batch[0] if self._batch else None
        if self._ledger is None or old is None or (old.space, old.guessing) != (wanted.space, wanted.guessing):
            self._ledger = Ledger(Encoding(wanted.space), self._known, wanted.guessing, self._compare)
        return self._ledger

    def _compare(self, trial: FrozenTrial, fact: Fact) -> None:
        """Warn once about a trial whose value differs from the exact one."""
        for objective, exact in zip(self._known.objectives, fact.exact):
            value = trial.values[objective]
            if self._warned or not math.isfinite(exact) or not math.isfinite(value):
                continue
            if not math.isclose(value, exact, rel_tol=TOLERANCE, abs_tol=1e-300):
                self._warned = True
                warnings.warn(f"exact[{objective}] gives {exact!r} for the parameters of trial {trial.number}, but the "
                              f"trial's value of objective {objective} is {value!r}; the sampler uses the exact values "
                              "of what it proposes, so make both the same or leave the objective out of exact",
                              stacklevel=2)

    def _check(self, study: Study) -> None:
        unknown = [one for one in self._known.objectives if not 0 <= one < len(study.directions)]
        if unknown:
            raise InputError("exact", f"objective {unknown[0]} is not one of the study's {len(study.directions)}")


HELP, PURE = "surrogate model of quality, trained on the trials; costs are exact", True


def make(problem: Problem, seed: int) -> BaseSampler:
    """The sampler of a whole search."""
    return PredictorSampler(**vars(problem), seed=seed)
