"""Which points dominate which, and how much a set of points adds to a front. Every objective is minimised."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
PROBES = 8192
KEPT = 1024


def covers(points: Floats, others: Floats) -> Bools:
    """For every point and every other: whether the point is at least as good in every objective."""
    found = np.ones((len(points), len(others)), dtype=bool)
    for column in range(points.shape[1]):
        found &= points[:, column, None] <= others[None, :, column]
    return found


def undominated(points: Floats) -> Bools:
    """Whether no other point is better somewhere and worse nowhere."""
    found = np.zeros(len(points), dtype=bool)
    left = np.lexsort(points.T[::-1])  # whoever dominates a point comes before it
    while len(left):
        first = points[left[0]]
        rest = points[left]
        found[left[(rest == first).all(axis=1)]] = True
        left = left[(rest < first).any(axis=1)]
    return found


def layers(points: Floats, violation: Floats, n: int = 1) -> NDArray[np.int64]:
    """The number of the front each point is on; the feasible first, then the others by how much they violate.

    Fronts are told apart until they hold n points; what is left is on the last one.
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
    """How far apart each point's neighbours on its front are; infinite at the ends."""
    found = np.zeros(len(points))
    span = np.ptp(points, axis=0)
    for column in np.flatnonzero(span > 0):
        order = np.lexsort((points[:, column], layer))
        values, numbers = points[order, column], layer[order]
        gaps = np.full(len(points), np.inf)
        inner = (numbers[2:] == numbers[:-2])
        gaps[1:-1][inner] = ((values[2:] - values[:-2]) / span[column])[inner]
        found[order] += gaps
    return found


def best(points: Floats, violation: Floats, n: int) -> NDArray[np.int64]:
    """The n best, by front and then by crowding."""
    layer = layers(points, violation, n)
    return np.lexsort((-crowding(points, layer), layer))[:n]


class Gains:
    """The hypervolume each candidate would add, counted on random probes of what is not yet dominated.

    Args:
        known: the values of what was evaluated.
        candidates: the values of what may be.
    """

    def __init__(self, known: Floats, candidates: Floats, rng: np.random.Generator) -> None:
        together = np.concatenate([known, candidates])
        front = together[undominated(together)]
        low, high = front.min(axis=0), front.max(axis=0)
        edge = known.min(axis=0) if known.shape[1] == 1 else high + 0.1 * (high - low)
        probes = rng.uniform(low, np.maximum(edge, low), (PROBES, known.shape[1]))
        probes = probes[~covers(known[undominated(known)], probes).any(axis=0)]
        self.covered = covers(candidates, probes)
        reached = np.flatnonzero(self.covered.any(axis=0))[:KEPT]
        self.probes, self.covered = probes[reached], self.covered[:, reached]
        self.open = np.ones(len(reached), dtype=bool)

    def of_each(self) -> NDArray[np.int64]:
        """The number of open probes each candidate dominates."""
        return self.covered[:, self.open].sum(axis=1)

    def take(self, values: Floats) -> None:
        """Close what a chosen candidate dominates."""
        self.open &= ~covers(values[None], self.probes)[0]
