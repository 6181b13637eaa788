"""Random sampling."""

from __future__ import annotations

from optuna.samplers import BaseSampler, RandomSampler

from nas.stages.search.samplers._problem import Problem

HELP, PURE = "random architectures", False


def make(problem: Problem, seed: int) -> BaseSampler:
    """The sampler of one suggestion."""
    return RandomSampler(seed=seed)
