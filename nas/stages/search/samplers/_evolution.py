"""Populations that evolve side by side, each for one view of the objectives, and share every point they find."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nas.core.pareto import best
from nas.stages.search.samplers._encoding import Encoding, Floats
from nas.stages.search.samplers._guide import Guide
from nas.stages.search.samplers._pool import CandidatePool

Indices = NDArray[np.int64]
Judge = Callable[[Indices], Floats]
"""What each view thinks of points of a pool: points by objectives by views, all minimised."""
GENERATIONS = 8
CANDIDATES = 1440
SIZE = 48
CHANGES = np.array([1, 1, 2, 4])


def evolve(pool: CandidatePool, judge: Judge, judged: Indices, parents: Indices, views: int,
           rng: np.random.Generator) -> Floats:
    """Search the pool's space from some of its points. Returns what every view thinks of every point of the pool.

    Args:
        judged: which points of the pool to judge, the parents and the latest among them; the others are infinitely bad.
        views: how many have a population, the first ones; the others only look on.
    """
    first = judge(judged)
    values = np.full((len(pool), *first.shape[1:]), np.inf)
    values[judged] = first
    populations = [parents[best(values[parents, :, view], pool.violation[parents], SIZE)] for view in range(views)]
    count = max(CANDIDATES // GENERATIONS // views // 2, 1)
    for _ in range(GENERATIONS):
        guide = Guide(pool.encoding, pool.rows, pool.active, values[:, :, :views])
        children = [pool.add(_offspring(pool, ranked, guide, view, count, rng))
                    for view, ranked in enumerate(populations)]
        if len(pool) > len(values):
            values = np.concatenate([values, judge(np.arange(len(values), len(pool)))])
        for view, found in enumerate(children):
            merged = np.unique(np.concatenate([populations[view], found]))
            populations[view] = merged[best(values[merged, :, view], pool.violation[merged], SIZE)]
    return values


def _offspring(pool: CandidatePool, ranked: Indices, guide: Guide, view: int, n: int,
               rng: np.random.Generator) -> Floats:
    """Children of a population, n of chance and n that are guided."""
    rows, active = pool.rows[ranked], pool.active[ranked]
    guided = guide.children(rows[rng.integers(len(rows), size=n)], view, rng)
    return np.concatenate([_children(rows, active, pool.encoding, n, rng), guided])


def _children(ranked: Floats, active: NDArray[np.bool_], encoding: Encoding, n: int,
              rng: np.random.Generator) -> Floats:
    """Children of rows that stand in order, the better of two drawn being a parent, with changes that mostly matter."""
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
