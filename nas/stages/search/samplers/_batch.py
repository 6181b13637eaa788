"""What to evaluate next, in order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from nas.core.pareto import Floats, best, covers, undominated
from nas.stages.search.samplers._evolution import Judge, evolve
from nas.stages.search.samplers._pool import CandidatePool, Indices
from nas.stages.search.samplers._views import Evaluated, Predictions

RANDOM = 128
HOMOGENEOUS = 24
"""Initial points in which parameters with the same choices have the same value: they span the range of costs."""
LISTED = 4096
SHORTLIST = 160
PARENTS = 192
RECENT = 640
"""Number of latest trials considered besides the best, so that batches stay fast after thousands of trials."""
POPULATIONS = 3
"""Number of views with their own population, so that points that are good only under a draw are found, too."""
CAUTION = 2
"""One in this many points is chosen by one of the draws, alternately."""
PROBES, KEPT = 8192, 1024
"""Random points for estimating hypervolumes, and the number of those dominated by candidates that are used."""


def start(pool: CandidatePool, taken: set[int], n: int, rng: np.random.Generator) -> list[int]:
    """Points to begin with: alternately far from the others in the exact objectives, and in the parameters."""
    drawn = np.union1d(_fill(pool, rng), pool.add(pool.encoding.alike(rng, HOMOGENEOUS)))
    if pool.exact.shape[1] or pool.violation[drawn].any():
        everything = np.arange(len(pool))
        evolve(pool, _ends(pool), everything, everything, max(2 * pool.exact.shape[1], 1), rng)
    fresh = _fresh(pool, taken, np.arange(len(pool)))
    drawn = _fresh(pool, taken, rng.permutation(drawn))
    places = pool.encoding.coordinates(pool.rows[drawn], pool.active[drawn])
    lots = iter(drawn[list(itertools.islice(_spread(places, squared=True), 4 * n))].tolist())
    chosen: dict[int, None] = {}
    for point in _spread(pool.exact[fresh]) if pool.exact.shape[1] else iter(range(len(fresh))):
        if pool.exact.shape[1]:
            chosen[int(fresh[point])] = None
        following = next((one for one in lots if one not in chosen), None)
        if following is not None:
            chosen[following] = None
        if len(chosen) >= n:
            break
    return [*chosen, *(one for one in fresh.tolist() if one not in chosen)]


def improve(pool: CandidatePool, taken: set[int], seen: Evaluated, exact: list[int], n: int, turn: int,
            rng: np.random.Generator) -> list[int]:
    """Points that are expected to add the most to the front.

    Args:
        turn: which view chooses first: batches of one point take turns, too.
    """
    order = best(seen.values, np.zeros(len(seen.values)), PARENTS)
    judge, tried = Predictions(pool, seen, exact, rng), len(pool)
    _fill(pool, rng)
    strangers = np.arange(len(pool))[-RANDOM // 4:]
    judged = np.union1d(seen.indices[order], np.arange(max(tried - RECENT, 0), len(pool)))
    values = evolve(pool, judge, judged, np.concatenate([seen.indices[order], strangers]),
                    min(POPULATIONS, judge.views), rng)
    fresh = _fresh(pool, taken, np.arange(len(pool)))
    chosen = _greedy(values, np.intersect1d(seen.indices, judged), fresh, n, turn, rng) if len(fresh) else []
    return [*chosen, *(one for one in fresh[::-1].tolist() if one not in set(chosen))]


def _fill(pool: CandidatePool, rng: np.random.Generator) -> Indices:
    """Random points, or every point of a small space."""
    everything = pool.encoding.everything(LISTED)
    return np.unique(pool.add(pool.encoding.sample(rng, RANDOM) if everything is None else everything))


def _fresh(pool: CandidatePool, taken: set[int], indices: Indices) -> Indices:
    """Feasible points that are not taken; the least infeasible ones if no point of the pool is feasible."""
    free = indices[~np.isin(indices, sorted(taken))]
    if (pool.violation <= 0).any():
        return free[pool.violation[free] <= 0]
    return free[np.argsort(pool.violation[free], kind="stable")]


def _ends(pool: CandidatePool) -> Judge:
    """Views that look for the least and the greatest of every exact objective."""
    def judge(indices: Indices) -> Floats:
        exact = pool.exact[indices]
        return np.concatenate([exact, -exact], axis=1)[:, None, :] if exact.shape[1] else np.zeros((len(exact), 1, 1))
    return judge


def _spread(points: Floats, squared: bool = False) -> Iterator[int]:
    """All points, each as far as possible from those before it.

    Args:
        squared: whether points are coordinates: they are not scaled, and the first is nearest to the origin; otherwise
            all columns are scaled to the same range, and the first point has the lowest sum.
    """
    if not len(points):
        return
    span = np.ptp(points, axis=0)
    scaled = points if squared else (points - points.min(axis=0)) / np.where(span > 0, span, 1.0)
    distance = np.full(len(points), np.inf)
    following = int(np.argmin((scaled**2 if squared else scaled).sum(axis=1)))
    for _ in range(len(points)):
        yield following
        step = np.abs(scaled - scaled[following])
        distance = np.minimum(distance, (step**2 if squared else step).sum(axis=1))
        distance[following] = -1.0
        following = int(np.argmax(distance))


def _greedy(values: Floats, seen: Indices, fresh: Indices, n: int, first: int, rng: np.random.Generator) -> list[int]:
    """Points that add the most hypervolume; alternating between expected values and draws."""
    views = values.shape[2]
    lists = [fresh[best(values[fresh, :, view], np.zeros(len(fresh)), SHORTLIST)] for view in range(views)]
    gains = [_Gains(values[seen, :, view], values[some, :, view], rng) for view, some in enumerate(lists)]
    chosen: dict[int, None] = {}
    for turn in range(first, first + n):
        view = 1 + turn // CAUTION % (views - 1) if views > 1 and turn % CAUTION == CAUTION - 1 else 0
        counts = gains[view].of_each()
        left = [place for place in np.argsort(-counts, kind="stable").tolist() if int(lists[view][place]) not in chosen]
        if not left:
            break
        point = int(lists[view][left[0]])
        chosen[point] = None
        for other in range(views):
            gains[other].take(values[point, :, other])
    return list(chosen)


class _Gains:
    """The hypervolume each candidate would add, counted on random probes of what is not yet dominated.

    Exact volumes of thousands of candidates, again after every choice, would take minutes.

    Args:
        known: the values of what was evaluated.
        candidates: the values of the candidates.
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

    def of_each(self) -> Indices:
        """The number of open probes each candidate dominates."""
        return self.covered[:, self.open].sum(axis=1)

    def take(self, values: Floats) -> None:
        """Close what a chosen candidate dominates."""
        self.open &= ~covers(values[None], self.probes)[0]
