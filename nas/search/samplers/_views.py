"""What the objectives of points may be: exact where they are known, learnt from the evaluations where not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nas.search.samplers._encoding import Floats
from nas.search.samplers._model import Process
from nas.search.samplers._pool import Pool

Indices = NDArray[np.int64]
DRAWS = 4
FITTED = 640
"""How many evaluations a model is fitted on: the latest."""


@dataclass(frozen=True)
class Evaluated:
    """Points of a pool that were evaluated, and their objectives, all minimised."""

    indices: Indices
    values: Floats


class Predictions:
    """The first view expects the mean of every learnt objective, the others draws.

    Args:
        exact: the numbers of the exact objectives, as the pool has them.

    Attributes:
        views: how many there are; one where nothing is learnt.
    """

    def __init__(self, pool: Pool, seen: Evaluated, exact: list[int], rng: np.random.Generator) -> None:
        self._pool, self._exact = pool, exact
        indices, values = seen.indices[-FITTED:], seen.values[-FITTED:]
        costs = self._costs(indices)
        self._unit = np.maximum(np.median(np.abs(costs), axis=0), 1e-12)
        bent = self._bent(costs)
        self._middle, width = bent.mean(axis=0), bent.std(axis=0)
        self._width = np.where(width > 1e-9 * np.abs(self._middle), width, np.inf)  # what never varied tells nothing
        self._models = {objective: Process(*self._features(indices), values[:, objective], DRAWS, rng)
                        for objective in range(values.shape[1]) if objective not in exact}
        self._n_objectives = values.shape[1]
        self.views = 1 + DRAWS if self._models else 1

    def __call__(self, indices: Indices) -> Floats:
        """Points by objectives by views."""
        found = np.empty((len(indices), self._n_objectives, self.views))
        for column, objective in enumerate(self._exact):
            found[:, objective, :] = self._pool.exact[indices, column, None]
        columns, _ = self._features(indices)
        for objective, model in self._models.items():
            found[:, objective, :] = model(columns)
        return found

    def _features(self, indices: Indices) -> tuple[Floats, Indices]:
        """The parameters' own columns, and the costs: quality mostly goes with them."""
        columns, groups = self._pool.encoding.features(self._pool.rows[indices], self._pool.active[indices])
        costs = (self._bent(self._costs(indices)) - self._middle) / self._width
        first = groups.max(initial=-1) + 1
        return np.concatenate([columns, costs], axis=1), np.append(groups, first + np.arange(costs.shape[1]))

    def _costs(self, indices: Indices) -> Floats:
        """The exact objectives and the hints."""
        return np.concatenate([self._pool.exact[indices], self._pool.hints[indices]], axis=1)

    def _bent(self, costs: Floats) -> Floats:
        """Costs as they are, and as their logarithm where they are not small."""
        return np.concatenate([costs, np.arcsinh(10 * costs / self._unit)], axis=1)
