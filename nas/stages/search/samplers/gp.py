"""Optuna's Gaussian process: for a few dozen costly evaluations."""

from __future__ import annotations

from optuna.samplers import BaseSampler, GPSampler

from nas.stages.search.samplers._problem import Problem

HELP, PURE = "Gaussian process, for a few dozen costly evaluations", False


def make(problem: Problem, seed: int) -> BaseSampler:
    """The sampler of one suggestion."""
    return GPSampler(seed=seed)
