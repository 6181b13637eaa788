"""Children made on purpose: with the values that each parameter should have if its effect did not depend on others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nas.search.samplers._encoding import Encoding, Floats

SAMPLE = 640
PENALTY = 1.0
HEATS = np.array([0.0, 0.1, 0.3, 1.0])
SHARES = np.array([0.1, 0.3, 1.0])


class Guide:
    """The effect of every choice on every objective of every view, by ridge regression.

    Args:
        rows: points, the latest last.
        active: which of their parameters matter.
        values: what the views think of them: points by objectives by views.
    """

    def __init__(self, encoding: Encoding, rows: Floats, active: NDArray[np.bool_], values: Floats) -> None:
        rows, active, values = rows[-SAMPLE:], active[-SAMPLE:], values[-SAMPLE:]
        self._choices = np.flatnonzero(encoding.counts > 0)
        counts = encoding.counts[self._choices]
        self._edges = np.concatenate([[0], np.cumsum(counts)])
        chosen = np.zeros((len(rows), self._edges[-1]))
        chosen[np.arange(len(rows))[:, None], rows[:, self._choices].astype(int) + self._edges[:-1]] = (
            active[:, self._choices])
        scaled = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-12)
        square = chosen.T @ chosen + PENALTY * np.eye(chosen.shape[1])
        self._effects = np.linalg.solve(square, chosen.T @ scaled.reshape(len(rows), -1))
        self._effects = self._effects.reshape(-1, *values.shape[1:])

    def children(self, parents: Floats, view: int, rng: np.random.Generator) -> Floats:
        """The parents with some of their choices made for a random weighting of the objectives, more or less well."""
        if not len(self._choices):
            return parents
        n = len(parents)
        effects = self._effects[:, :, view]
        wanted = rng.dirichlet(np.ones(effects.shape[1]), n) @ effects.T
        heat = rng.choice(HEATS, (n, 1)) * wanted.std(axis=1, keepdims=True)
        wanted -= heat * rng.gumbel(size=wanted.shape)
        children = parents.copy()
        replaced = rng.random(parents.shape) < rng.choice(SHARES, (n, 1))
        for column, low, high in zip(self._choices, self._edges, self._edges[1:]):
            best = wanted[:, low:high].argmin(axis=1)
            children[:, column] = np.where(replaced[:, column], best, parents[:, column])
        return children
