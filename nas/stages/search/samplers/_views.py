"""Predicted objectives of points: exact if known, otherwise learned from evaluations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nas.core.pareto import Floats
from nas.stages.search.samplers._model import Inputs, Process
from nas.stages.search.samplers._pool import CandidatePool, Indices

DRAWS = 4
FITTED = 640
"""Number of latest evaluations that a model is fitted on."""


@dataclass(frozen=True)
class Evaluated:
    """Points of a pool that were evaluated, and their objectives, all minimised."""

    indices: Indices
    values: Floats


class Predictions:
    """The first view expects the mean of every learnt objective, the others draws.

    A single objective that is learnt has the expected improvement in place of the mean: without other objectives to
    spread over, the points of the least mean would all be near the best so far.

    Args:
        exact: the numbers of the exact objectives, as the pool has them.

    Attributes:
        views: how many there are; one where nothing is learnt.
    """

    def __init__(self, pool: CandidatePool, seen: Evaluated, exact: list[int], rng: np.random.Generator) -> None:
        self._pool, self._exact = pool, exact
        indices, values = seen.indices[-FITTED:], seen.values[-FITTED:]
        self._costs = Costs(self._cost_columns(indices))
        inputs, groups = self._inputs(indices)
        self._models = {objective: Process(inputs, groups, values[:, objective], DRAWS, rng)
                        for objective in range(values.shape[1]) if objective not in exact}
        self._n_objectives = values.shape[1]
        self.views = 1 + DRAWS if self._models else 1

    def __call__(self, indices: Indices) -> Floats:
        """Points by objectives by views."""
        values = np.empty((len(indices), self._n_objectives, self.views))
        for column, objective in enumerate(self._exact):
            values[:, objective, :] = self._pool.exact[indices, column, None]
        if self._models:
            inputs, _ = self._inputs(indices)
        for objective, model in self._models.items():
            values[:, objective, :] = model(inputs)
        if self._n_objectives == 1 and self._models:
            values[:, 0, 0] = -self._models[0].improvement(inputs)
        return values

    def _inputs(self, indices: Indices) -> tuple[Inputs, Indices]:
        """Columns of the parameters, which of them are present, and the costs, which mostly correlate with quality."""
        rows, active = self._pool.rows[indices], self._pool.active[indices]
        columns, groups = self._pool.encoding.features(rows, active)
        sets = self._pool.activity.sets if self._pool.activity else []
        there = np.array([2.0 * active[:, one].any(axis=1) - 1 for one in sets]).reshape(len(sets), len(rows)).T
        more = np.concatenate([there, self._costs(self._cost_columns(indices))], axis=1)
        first = groups.max(initial=-1) + 1
        places = np.concatenate([self._pool.encoding.coordinates(rows, active), there / 2], axis=1)
        return (Inputs(np.concatenate([columns, more], axis=1), places),
                np.append(groups, first + np.arange(more.shape[1])))

    def _cost_columns(self, indices: Indices) -> Floats:
        """The exact objectives and the hints."""
        return np.concatenate([self._pool.exact[indices], self._pool.hints[indices]], axis=1)


class Costs:
    """Costs as columns of a model: as they are, and as their logarithm where they are not small.

    Args:
        costs: those of what was evaluated, which the columns are scaled by.
    """

    def __init__(self, costs: Floats) -> None:
        unit = np.median(np.abs(costs), axis=0)
        self._unit = np.where(unit > 0, unit, np.maximum(np.abs(costs).max(axis=0, initial=0.0), 1e-300))
        bent = self._bent(costs)
        self._middle, width = bent.mean(axis=0), bent.std(axis=0)
        self._width = np.where(width > 1e-9 * np.abs(self._middle), width, np.inf)  # constant columns say nothing

    def __call__(self, costs: Floats) -> Floats:
        """The columns of some costs; those far beyond what was evaluated are no further than 20 deviations."""
        return np.clip((self._bent(costs) - self._middle) / self._width, -20, 20)

    def _bent(self, costs: Floats) -> Floats:
        with np.errstate(over="ignore"):
            shares = np.clip(costs / self._unit, -1e100, 1e100)
        return np.concatenate([shares, np.arcsinh(10 * shares)], axis=1)
