"""Pareto dominance and hypervolume; the only implementations in the repository.

Every objective is a cost: lower is better.

A point dominates another if it is nowhere greater and somewhere less.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
FAR = 1e150
"""Replaces infinity in distances, so that differences and their sums stay finite."""


def as_costs(values: ArrayLike, maximise: Sequence[bool]) -> Floats:
    """The values with those to maximise negated: lower is better everywhere."""
    rows = np.asarray(values, dtype=np.float64).reshape(-1, len(maximise))
    return rows * np.where(np.asarray(maximise, dtype=bool), -1.0, 1.0)


def covers(points: Floats, others: Floats) -> Bools:
    """Points by others: whether the point is at least as good in every objective."""
    result = np.ones((len(points), len(others)), dtype=bool)
    for column in range(points.shape[1]):
        result &= points[:, column, None] <= others[None, :, column]
    return result


def undominated(points: Floats) -> Bools:
    """Whether no other point dominates it, for each point; equal points are treated alike, and NaN is worse than any
    number."""
    columns = np.where(np.isnan(points), np.inf, points).T
    result = np.zeros(len(points), dtype=bool)
    left = np.lexsort(columns[::-1])  # a point comes after all that dominate it
    columns = np.ascontiguousarray(columns[:, left])
    if len(columns) == 2 and len(left):
        result[left] = _undominated_pairs(*columns)
        return result
    while len(left):
        first = columns[:, :1]
        undecided = (columns < first).any(axis=0)
        result[left[~undecided]] = (columns[:, ~undecided] == first).all(axis=0)
        left, columns = left[undecided], columns[:, undecided]
    return result


def _undominated_pairs(first: Floats, second: Floats) -> Bools:
    """As `undominated`, for points with two objectives that are sorted by both: one pass instead of one per point."""
    new = np.ones(len(first), dtype=bool)  # of equal points, the first
    new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    least = np.minimum.accumulate(second)
    better = np.ones(len(first), dtype=bool)
    better[1:] = second[1:] < least[:-1]
    return better[new][np.cumsum(new) - 1]


def pareto(costs: ArrayLike) -> NDArray[np.intp]:
    """The rows that no other row dominates, in their order; of equal rows the first, and none that is not finite."""
    points = np.asarray(costs, dtype=np.float64)
    rows = np.flatnonzero(np.isfinite(points).all(axis=1))
    rows = rows[undominated(points[rows])]
    _, first = np.unique(points[rows], axis=0, return_index=True)
    return rows[np.sort(first)]


def layers(points: Floats, violation: Floats, n: int = 1) -> NDArray[np.int64]:
    """The number of the front of each point: the feasible first, then the others by how much they violate.

    Fronts are computed until they contain n points; the remaining points are on the last one.
    """
    number = np.zeros(len(points), dtype=np.int64)
    left = np.arange(len(points))
    while len(left) and len(points) - len(left) < n:
        least = violation[left].clip(0)
        front = least == least.min()
        if least.min() == 0:
            front[front] = undominated(points[left[front]])
        left = left[~front]
        number[left] += 1
    return number


def crowding(points: Floats, layer: NDArray[np.int64]) -> Floats:
    """How far apart the neighbours of each point on its front are; infinite at the ends."""
    points = np.nan_to_num(points, nan=FAR, posinf=FAR, neginf=-FAR)
    result = np.zeros(len(points))
    span = np.ptp(points, axis=0)
    for column in np.flatnonzero(span > 0):
        order = np.lexsort((points[:, column], layer))
        values, numbers = points[order, column], layer[order]
        gaps = np.full(len(points), np.inf)
        inner = numbers[2:] == numbers[:-2]
        gaps[1:-1][inner] = ((values[2:] - values[:-2]) / span[column])[inner]
        result[order] += gaps
    return result


def best(points: Floats, violation: Floats, n: int) -> NDArray[np.int64]:
    """The n best points, by front and then by crowding (NSGA-II)."""
    if points.shape[1] == 1:
        return np.lexsort((points[:, 0], violation.clip(0)))[:n]
    layer = layers(points, violation, n)
    return np.lexsort((-crowding(points, layer), layer))[:n]


def hypervolume(costs: ArrayLike, reference: ArrayLike) -> float:
    """The volume between the points and the reference; points beyond it in any direction add nothing."""
    corner = np.asarray(reference, dtype=np.float64)
    points = np.asarray(costs, dtype=np.float64).reshape(-1, len(corner))
    points = points[(np.isfinite(points) & (points < corner)).all(axis=1)]
    return _volume(points[undominated(points)], corner)


def _volume(points: Floats, corner: Floats) -> float:
    """The volume of finite points, none of them beyond the corner.

    Two and three objectives are swept. More are reduced by one at a time, as in WFG (While et al., 2012): points are
    taken from worst to best in the last objective, so what a point shares with later ones extends over its own range of
    that objective.
    """
    n_points, n_objectives = points.shape
    if n_points < 2 or n_objectives == 1:
        return float(np.prod(corner - points.min(axis=0))) if n_points else 0.0
    points = points[np.argsort(-points[:, -1], kind="stable")]
    if n_objectives == 2:
        widths = corner[0] - np.minimum.accumulate(points[::-1, 0])[::-1]
        return float(widths @ -np.diff(points[:, 1], prepend=corner[1]))
    if n_objectives == 3:
        return _volume_of_three(points, corner)
    inner, edge, total = points[:, :-1], corner[:-1], 0.0
    for row, point in enumerate(inner):
        shared = np.maximum(inner[row + 1:], point)
        if n_objectives > 4:  # three objectives are swept as fast with what is dominated as without
            shared = shared[undominated(shared)]
        own = float(np.prod(edge - point)) - _volume(shared, edge)
        total += own * float(corner[-1] - points[row, -1])
    return total


def _volume_of_three(points: Floats, corner: Floats) -> float:
    """On the grid of the points' first two coordinates: the height of a cell is the greatest of all points below it."""
    rows, columns = np.argsort(points[:, 0], kind="stable"), np.argsort(points[:, 1], kind="stable")
    heights = np.zeros((len(points), len(points)))
    heights[np.argsort(rows), np.argsort(columns)] = corner[2] - points[:, 2]
    heights = np.maximum.accumulate(np.maximum.accumulate(heights, axis=0), axis=1)
    depths, widths = (np.diff(points[order, column], append=corner[column])
                      for column, order in enumerate((rows, columns)))
    return float(depths @ heights @ widths)


class Hypervolume:
    """Incremental hypervolume: only the contribution of each new point is computed."""

    def __init__(self, reference: ArrayLike) -> None:
        self.reference = np.asarray(reference, dtype=np.float64)
        self.front = np.zeros((0, len(self.reference)))
        self.value = 0.0

    def add(self, cost: ArrayLike) -> float:
        """The hypervolume with one more point."""
        point = np.asarray(cost, dtype=np.float64)
        if not (np.isfinite(point) & (point < self.reference)).all() or covers(self.front, point[None]).any():
            return self.value
        shared = hypervolume(np.maximum(self.front, point), self.reference)
        self.value += float(np.prod(self.reference - point)) - shared
        self.front = np.vstack([self.front[~covers(point[None], self.front)[0]], point])
        return self.value
