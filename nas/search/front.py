"""Which of many points no other beats in everything, and how much of the space behind a reference they cover."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from optuna._hypervolume import compute_hypervolume

Floats = NDArray[np.float64]


def as_costs(values: ArrayLike, maximise: Sequence[bool]) -> Floats:
    """The values with those to maximise negated: less is better everywhere."""
    found = np.asarray(values, dtype=np.float64).reshape(-1, len(maximise))
    return found * np.where(np.asarray(maximise, dtype=bool), -1.0, 1.0)


def pareto(costs: ArrayLike) -> NDArray[np.intp]:
    """The rows that no other row dominates, in their order; of equal rows the first, and none that is not finite.

    A row dominates another where it is nowhere greater and somewhere less.
    """
    points = np.asarray(costs, dtype=np.float64)
    rows = np.flatnonzero(np.isfinite(points).all(axis=1))
    rows = rows[np.lexsort(points[rows].T[::-1])]  # whoever dominates a row comes before it
    kept: list[int] = []
    for row in rows.tolist():
        if not kept or not (points[kept] <= points[row]).all(axis=1).any():
            kept.append(row)
    return np.array(sorted(kept), dtype=np.intp)


def hypervolume(costs: ArrayLike, reference: ArrayLike) -> float:
    """The volume between the points and the reference; points beyond it in any direction add nothing."""
    corner = np.asarray(reference, dtype=np.float64)
    points = np.asarray(costs, dtype=np.float64).reshape(-1, len(corner))
    points = points[(points < corner).all(axis=1)]
    return _volume(points[pareto(points)], corner) if len(points) else 0.0


def _volume(points: Floats, corner: Floats) -> float:
    """Of a front, in any number of directions."""
    if points.shape[1] == 1:
        return float(corner[0] - points.min())
    if points.shape[1] == 2:
        ordered = points[np.argsort(points[:, 0], kind="stable")]
        ends = np.append(ordered[1:, 0], corner[0])
        return float(np.sum((ends - ordered[:, 0]) * (corner[1] - ordered[:, 1])))
    return float(compute_hypervolume(points, corner, assume_pareto=True))


class Hypervolume:
    """The hypervolume over time of points that come one by one; only a point on the front costs anything."""

    def __init__(self, reference: ArrayLike) -> None:
        self.reference = np.asarray(reference, dtype=np.float64)
        self.front = np.zeros((0, len(self.reference)))
        self.value = 0.0

    def add(self, cost: ArrayLike) -> float:
        """The hypervolume with one more point."""
        point = np.asarray(cost, dtype=np.float64)
        if not np.isfinite(point).all() or (self.front <= point).all(axis=1).any():
            return self.value
        self.front = np.vstack([self.front[~(point <= self.front).all(axis=1)], point])
        self.value = hypervolume(self.front, self.reference)
        return self.value
