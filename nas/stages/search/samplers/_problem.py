"""What a sampler knows about a search without evaluations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optuna.distributions import BaseDistribution

Params = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """What is known about the parameters of a trial without evaluation.

    Args:
        exact: objective number -> its value; those that need no evaluation.
        key: the architecture key of parameters.
        constraints: each is met if it is at most 0.
        exact_many: as `exact`, for many parameters in one call.
        distributions: the parameters of every trial.
        active: the names of the parameters that matter, given the others.
        hints: for many parameters in one call, numbers that may correlate with quality.
    """

    exact: Mapping[int, Callable[[Params], float]] = field(default_factory=dict)
    key: Callable[[Params], Hashable] | None = None
    constraints: Sequence[Callable[[Params], float]] = ()
    exact_many: Mapping[int, Callable[[Sequence[Params]], Sequence[float]]] = field(default_factory=dict)
    distributions: Mapping[str, BaseDistribution] | None = None
    active: Callable[[Params], Collection[str]] | None = None
    hints: Callable[[Sequence[Params]], Sequence[Sequence[float]]] | None = None
