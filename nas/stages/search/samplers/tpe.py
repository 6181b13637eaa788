"""Optuna's tree-structured Parzen estimator, with the choices modelled together."""

from __future__ import annotations

from optuna.samplers import BaseSampler, TPESampler

from nas.stages.search.samplers._problem import Problem

HELP, PURE = "tree-structured Parzen estimator", False


def make(problem: Problem, seed: int) -> BaseSampler:
    """The sampler of one suggestion."""
    return TPESampler(seed=seed, multivariate=True)
