"""Optuna's genetic samplers with reproducible parents: a function of the trials only."""

from __future__ import annotations

from typing import Any

from optuna.samplers import BaseSampler, NSGAIIISampler, NSGAIISampler
from optuna.study import Study
from optuna.trial import FrozenTrial


def repeatable(base: type[NSGAIISampler] | type[NSGAIIISampler], seed: int) -> BaseSampler:
    """A sampler of that kind.

    Optuna's own chooses parents by the seed of the first trial of a generation, and gives them in another order to the
    others: a resumed search would then differ.
    """
    kind: Any = base

    class Repeatable(kind):  # type: ignore[misc]
        def select_parent(self, study: Study, generation: int) -> list[FrozenTrial]:
            chosen: list[FrozenTrial] = kind.select_parent(Repeatable(seed=generation), study, generation)
            return chosen

        def get_parent_population(self, study: Study, generation: int) -> list[FrozenTrial]:
            return sorted(super().get_parent_population(study, generation), key=lambda trial: trial.number)

    Repeatable.__name__ = base.__name__  # trials are marked with it
    sampler: BaseSampler = Repeatable(seed=seed)
    return sampler
