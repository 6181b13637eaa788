"""Optuna's genetic algorithm for two or three objectives."""

from __future__ import annotations

from optuna.samplers import BaseSampler, NSGAIISampler

from nas.stages.search.samplers._genetic import repeatable
from nas.stages.search.samplers._problem import Problem

HELP, PURE = "genetic algorithm, for two or three objectives", False


def make(problem: Problem, seed: int) -> BaseSampler:
    """The sampler of one suggestion."""
    return repeatable(NSGAIISampler, seed)
