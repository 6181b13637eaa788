"""Guided children: values that would be best if the effects of parameters were additive."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nas.stages.search.samplers._encoding import Encoding, Floats

SAMPLE = 640
PENALTY = 1.0
HEATS = np.array([0.0, 0.1, 0.3, 1.0])
SHARES = np.array([0.1, 0.3, 1.0])


class Guide:
    """The effect of every choice on every objective of every view, by ridge regression.

    Args:
        rows: points, the latest last.
        active: which of their parameters matter.
        values: predicted objectives: points by objectives by views.
    """

    def __init__(self, encoding: Encoding, rows: Floats, active: NDArray[np.bool_], values: Floats) -> None:
        rows, active, values = rows[-SAMPLE:], active[-SAMPLE:], values[-SAMPLE:]
        self._choices = np.flatnonzero(encoding.counts > 0)
        counts = encoding.counts[self._choices]
        self._edges = np.concatenate([[0], np.cumsum(counts)])
        chosen = np.zeros((len(rows), self._edges[-1]))
        chosen[np.arange(len(rows))[:, None], rows[:, self._choices].astype(int) + self._edges[:-1]] = (
            active[:, self._choices])
        self._effects = _ridge(chosen, _scaled(values).reshape(len(rows), -1)).reshape(-1, *values.shape[1:])

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


def _scaled(values: Floats) -> Floats:
    """Every objective of every view with mean 0 and spread 1; points that were not judged are like the worst."""
    judged = np.isfinite(values)
    worst = np.where(judged, values, -np.inf).max(axis=0)
    values = np.where(judged, values, np.where(np.isfinite(worst), worst, 0.0))
    size = np.abs(values).max(axis=0)
    shares = values / np.where(size > 0, size, 1.0)
    spread = shares.std(axis=0)
    return np.asarray((shares - shares.mean(axis=0)) / np.where(spread > 1e-14, spread, 1.0))


def _ridge(columns: Floats, targets: Floats) -> Floats:
    """The effects of columns; by the smaller of the two systems of equations that give them."""
    n_rows, n_columns = columns.shape
    if n_columns <= n_rows:
        return np.linalg.solve(columns.T @ columns + PENALTY * np.eye(n_columns), columns.T @ targets)
    return columns.T @ np.linalg.solve(columns @ columns.T + PENALTY * np.eye(n_rows), targets)
