"""What to evaluate next, in order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nas.search.samplers._dominance import Gains, best
from nas.search.samplers._encoding import Floats
from nas.search.samplers._evolution import Indices, Judge, evolve
from nas.search.samplers._pool import Pool
from nas.search.samplers._views import Evaluated, Predictions

RANDOM = 128
LISTED = 4096
SHORTLIST = 160
PARENTS = 192
RECENT = 640
"""How many of the latest trials are judged beside the best: a batch takes no longer after thousands of trials."""
POPULATIONS = 3
"""How many views have a population of their own: points that only a draw thinks well of have to be found, too."""
CAUTION = 2
"""One point in this many is chosen by one of the draws, in turn."""


def start(pool: Pool, taken: set[int], n: int, rng: np.random.Generator) -> list[int]:
    """Points to begin with: by turns far from the others in the exact objectives, and drawn at random."""
    drawn = _fill(pool, rng)
    if pool.exact.shape[1] or pool.violation[drawn].any():
        everything = np.arange(len(pool))
        evolve(pool, _ends(pool), everything, everything, max(2 * pool.exact.shape[1], 1), rng)
    fresh = _fresh(pool, taken, np.arange(len(pool)))
    lots = iter(_fresh(pool, taken, rng.permutation(drawn)).tolist())
    chosen: dict[int, None] = {}
    for point in _spread(pool.exact[fresh]):
        chosen[int(fresh[point])] = None
        following = next((one for one in lots if one not in chosen), None)
        if following is not None:
            chosen[following] = None
        if len(chosen) >= n:
            break
    return [*chosen, *(one for one in fresh.tolist() if one not in chosen)]


def improve(pool: Pool, taken: set[int], seen: Evaluated, exact: list[int], n: int,
            rng: np.random.Generator) -> list[int]:
    """Points that are expected to add the most to the front."""
    order = best(seen.values, np.zeros(len(seen.values)), PARENTS)
    judge, tried = Predictions(pool, seen, exact, rng), len(pool)
    _fill(pool, rng)
    strangers = np.arange(len(pool))[-RANDOM // 4:]
    judged = np.union1d(seen.indices[order], np.arange(max(tried - RECENT, 0), len(pool)))
    values = evolve(pool, judge, judged, np.concatenate([seen.indices[order], strangers]),
                    min(POPULATIONS, judge.views), rng)
    fresh = _fresh(pool, taken, np.arange(len(pool)))
    chosen = _greedy(values, np.intersect1d(seen.indices, judged), fresh, n, rng) if len(fresh) else []
    return [*chosen, *(one for one in fresh[::-1].tolist() if one not in set(chosen))]


def _fill(pool: Pool, rng: np.random.Generator) -> Indices:
    """Random points, or every point of a small space."""
    everything = pool.encoding.everything(LISTED)
    return np.unique(pool.add(pool.encoding.sample(rng, RANDOM) if everything is None else everything))


def _fresh(pool: Pool, taken: set[int], indices: Indices) -> Indices:
    """Those not taken, that are feasible; the least infeasible where no point of the pool is feasible."""
    free = indices[~np.isin(indices, sorted(taken))]
    if (pool.violation <= 0).any():
        return free[pool.violation[free] <= 0]
    return free[np.argsort(pool.violation[free], kind="stable")]


def _ends(pool: Pool) -> Judge:
    """Views that look for the least and the greatest of every exact objective."""
    def judge(indices: Indices) -> Floats:
        exact = pool.exact[indices]
        return np.concatenate([exact, -exact], axis=1)[:, None, :] if exact.shape[1] else np.zeros((len(exact), 1, 1))
    return judge


def _spread(points: Floats) -> Iterator[int]:
    """All points, each as far as can be from those before it."""
    if not len(points):
        return
    scaled = (points - points.min(axis=0)) / np.maximum(np.ptp(points, axis=0), 1e-12)
    distance = np.full(len(points), np.inf)
    following = int(np.argmin(scaled.sum(axis=1)))
    for _ in range(len(points)):
        yield following
        distance = np.minimum(distance, np.abs(scaled - scaled[following]).sum(axis=1))
        distance[following] = -1.0
        following = int(np.argmax(distance))


def _greedy(values: Floats, seen: Indices, fresh: Indices, n: int, rng: np.random.Generator) -> list[int]:
    """Points that add the most hypervolume; by turns of what is expected and of what may be."""
    views = values.shape[2]
    lists = [fresh[best(values[fresh, :, view], np.zeros(len(fresh)), SHORTLIST)] for view in range(views)]
    gains = [Gains(values[seen, :, view], values[some, :, view], rng) for view, some in enumerate(lists)]
    chosen: dict[int, None] = {}
    for turn in range(n):
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
