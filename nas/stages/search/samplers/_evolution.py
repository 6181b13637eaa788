"""Populations that evolve side by side, each for one view of the objectives, and share every point they find."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nas.core.pareto import Bools, Floats, best
from nas.stages.search.samplers._encoding import Encoding
from nas.stages.search.samplers._pool import CandidatePool, Indices

Judge = Callable[[Indices], Floats]
"""Predicted objectives of pool points: points by objectives by views, all minimised."""
GENERATIONS = 8
CANDIDATES = 1440
SIZE = 48
CHANGES = np.array([1, 1, 2, 4])
SAMPLE = 640
PENALTY = 1.0
HEATS = np.array([0.0, 0.1, 0.3, 1.0])
SHARES = np.array([0.1, 0.3, 1.0])


def evolve(pool: CandidatePool, judge: Judge, judged: Indices, parents: Indices, views: int,
           rng: np.random.Generator) -> Floats:
    """Search the pool's space from some of its points.

    Returns the predicted objectives of every point of the pool, by view.

    Args:
        judged: which points of the pool to score, including the parents and the latest; the others are infinitely bad.
        views: number of views with a population; the others only predict.
    """
    first = judge(judged)
    values = np.full((len(pool), *first.shape[1:]), np.inf)
    values[judged] = first
    populations = [parents[best(values[parents, :, view], pool.violation[parents], SIZE)] for view in range(views)]
    count = max(CANDIDATES // GENERATIONS // views // 2, 1)
    for _ in range(GENERATIONS):
        guide = _Guide(pool.encoding, pool.rows, pool.active, values[:, :, :views])
        children = [pool.add(_offspring(pool, ranked, guide, view, count, rng))
                    for view, ranked in enumerate(populations)]
        if len(pool) > len(values):
            values = np.concatenate([values, judge(np.arange(len(values), len(pool)))])
        for view, offspring in enumerate(children):
            merged = np.unique(np.concatenate([populations[view], offspring]))
            populations[view] = merged[best(values[merged, :, view], pool.violation[merged], SIZE)]
    return values


def _offspring(pool: CandidatePool, ranked: Indices, guide: _Guide, view: int, n: int,
               rng: np.random.Generator) -> Floats:
    """Children of a population, n random and n guided ones."""
    rows, active = pool.rows[ranked], pool.active[ranked]
    guided = guide.children(rows[rng.integers(len(rows), size=n)], view, rng)
    return np.concatenate([_children(rows, active, pool.encoding, n, rng), guided])


def _children(ranked: Floats, active: Bools, encoding: Encoding, n: int,
              rng: np.random.Generator) -> Floats:
    """Children of sorted rows by binary tournament and mutation, mostly of active parameters."""
    first, second = rng.integers(len(ranked), size=(2, 2, n)).min(axis=1)
    mixing = rng.random((n, 1)) < 0.7
    from_second = mixing & (rng.random((n, ranked.shape[1])) < 0.5)
    children = np.where(from_second, ranked[second], ranked[first])
    matter = np.maximum(active[first].sum(axis=1, keepdims=True), 1)
    changed = rng.random(children.shape) < rng.choice(CHANGES, size=(n, 1)) / matter
    return np.where(changed, _changed(children, encoding, rng), children)


def _changed(rows: Floats, encoding: Encoding, rng: np.random.Generator) -> Floats:
    """The rows with another value in every place."""
    counts = np.maximum(encoding.counts, 2)
    other = (rows + rng.integers(1, counts, size=rows.shape)) % encoding.counts.clip(1)
    moved = np.clip(rows + 0.15 * rng.standard_normal(rows.shape), 0, 1)
    anywhere = rng.random(rows.shape)
    number = np.where(rng.random(rows.shape) < 0.3, anywhere, moved)
    return np.where(encoding.counts > 0, other, number)


class _Guide:
    """The effect of every choice on every objective of every view, by ridge regression.

    Args:
        rows: points, the latest last.
        active: which of their parameters matter.
        values: predicted objectives: points by objectives by views.
    """

    def __init__(self, encoding: Encoding, rows: Floats, active: Bools, values: Floats) -> None:
        rows, active, values = rows[-SAMPLE:], active[-SAMPLE:], values[-SAMPLE:]
        self._choices = np.flatnonzero(encoding.counts > 0)
        counts = encoding.counts[self._choices]
        self._edges = np.concatenate([[0], np.cumsum(counts)])
        chosen = np.zeros((len(rows), self._edges[-1]))
        chosen[np.arange(len(rows))[:, None], rows[:, self._choices].astype(int) + self._edges[:-1]] = (
            active[:, self._choices])
        self._effects = _ridge(chosen, _scaled(values).reshape(len(rows), -1)).reshape(-1, *values.shape[1:])

    def children(self, parents: Floats, view: int, rng: np.random.Generator) -> Floats:
        """The parents with some choices optimised, to a varying degree, for a random weighting of the objectives."""
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
    """Every objective of every view with mean 0 and spread 1; points that were not scored count as the worst."""
    judged = np.isfinite(values)
    worst = np.where(judged, values, -np.inf).max(axis=0)
    values = np.where(judged, values, np.where(np.isfinite(worst), worst, 0.0))
    size = np.abs(values).max(axis=0)
    shares = values / np.where(size > 0, size, 1.0)
    spread = shares.std(axis=0)
    return np.asarray((shares - shares.mean(axis=0)) / np.where(spread > 1e-14, spread, 1.0))


def _ridge(columns: Floats, targets: Floats) -> Floats:
    """The effects of columns of zeros and ones; by the smaller of the two systems of equations that give them."""
    n_rows, n_columns = columns.shape
    if n_columns <= n_rows:
        return np.linalg.solve(columns.T @ columns + PENALTY * np.eye(n_columns), columns.T @ targets)
    ones = columns.astype(np.float32)  # products of zeros and ones are exact in it, and take half the time
    return columns.T @ np.linalg.solve((ones @ ones.T).astype(float) + PENALTY * np.eye(n_rows), targets)
