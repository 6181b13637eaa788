"""Optuna's genetic samplers, made repeatable: parents are a function of the trials, whoever asks first."""

from __future__ import annotations

from typing import Any

from optuna.samplers import BaseSampler, NSGAIIISampler, NSGAIISampler
from optuna.study import Study
from optuna.trial import FrozenTrial


def repeatable(base: type[NSGAIISampler] | type[NSGAIIISampler], seed: int) -> BaseSampler:
    """A sampler of that kind. Optuna's own chooses parents by the seed of the first trial of a generation, and gives
    them in another order to the others: a search that is resumed in between would go another way."""
    kind: Any = base

    class Repeatable(kind):  # type: ignore[misc]
        def select_parent(self, study: Study, generation: int) -> list[FrozenTrial]:
            chosen: list[FrozenTrial] = kind.select_parent(Repeatable(seed=generation), study, generation)
            return chosen

        def get_parent_population(self, study: Study, generation: int) -> list[FrozenTrial]:
            return sorted(super().get_parent_population(study, generation), key=lambda trial: trial.number)

    Repeatable.__name__ = base.__name__  # trials are marked with it
    made: BaseSampler = Repeatable(seed=seed)
    return made
