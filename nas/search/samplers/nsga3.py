"""Optuna's genetic algorithm for many objectives."""

from __future__ import annotations

from optuna.samplers import BaseSampler, NSGAIIISampler

from nas.search.samplers._problem import Problem


def make(problem: Problem, seed: int) -> BaseSampler:
    """The sampler of one suggestion."""
    return NSGAIIISampler(seed=seed)
