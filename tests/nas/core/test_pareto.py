"""Fronts and hypervolumes against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nas.core.pareto import Hypervolume, as_costs, covers, hypervolume, pareto


def brute_front(points: np.ndarray) -> list[int]:
    kept = []
    for i, a in enumerate(points):
        beaten = any((b <= a).all() and ((b < a).any() or j < i) for j, b in enumerate(points) if j != i)
        if not beaten:
            kept.append(i)
    return kept


def brute_volume(points: np.ndarray, corner: np.ndarray) -> float:
    """By cells: the grid that the points' coordinates make, each cell covered or not."""
    inside = points[(points < corner).all(axis=1)]
    axes = [np.unique(np.append(inside[:, axis], corner[axis])) for axis in range(len(corner))]
    total = 0.0
    for cell in itertools.product(*(range(len(axis) - 1) for axis in axes)):
        low = np.array([axes[axis][i] for axis, i in enumerate(cell)])
        if (inside <= low).all(axis=1).any():
            total += float(np.prod([axes[axis][i + 1] - axes[axis][i] for axis, i in enumerate(cell)]))
    return total


@pytest.mark.parametrize("n_objectives", [1, 2, 3, 4, 5])
def test_fronts_and_volumes_equal_brute_force_on_random_sets(n_objectives: int) -> None:
    rng = np.random.default_rng(n_objectives)
    for case in range(250):
        n = int(rng.integers(1, {4: 9, 5: 6}.get(n_objectives, 14)))
        points = rng.integers(0, 6, (n, n_objectives)).astype(float) if case % 2 else rng.random((n, n_objectives)) * 6
        corner = np.full(n_objectives, rng.choice([3.0, 5.0, 7.0]))
        assert pareto(points).tolist() == brute_front(points)
        assert hypervolume(points, corner) == pytest.approx(brute_volume(points, corner), abs=1e-9)
        growing = Hypervolume(corner)
        assert [growing.add(point) for point in points][-1] == pytest.approx(hypervolume(points, corner), abs=1e-9)


@pytest.mark.parametrize("n_objectives", [4, 5, 6])
def test_volumes_of_large_fronts_equal_the_share_of_random_points(n_objectives: int) -> None:
    rng = np.random.default_rng(n_objectives)
    points = rng.random((60, n_objectives))
    probes = rng.random((200_000, n_objectives))
    share = covers(points, probes).any(axis=0).mean()
    assert hypervolume(points, np.ones(n_objectives)) == pytest.approx(share, abs=5 * (share / len(probes)) ** 0.5)


def test_what_is_not_finite_is_on_no_front() -> None:
    assert pareto([[1.0, np.nan], [2.0, 2.0], [np.inf, 0.0]]).tolist() == [1]
    assert hypervolume([[np.nan, 0.0]], [1.0, 1.0]) == 0.0


def test_the_order_of_points_does_not_change_the_front() -> None:
    points = np.random.default_rng(0).integers(0, 5, (40, 3)).astype(float)
    front = {tuple(points[i]) for i in pareto(points)}
    assert front == {tuple(points[::-1][i]) for i in pareto(points[::-1])}


def test_what_is_maximised_is_negated() -> None:
    assert as_costs([[1.0, 2.0]], [False, True]).tolist() == [[1.0, -2.0]]
