"""Selects the architectures of the ranking report.

Over the whole cost range every predictor ranks well, including size. So half of the architectures are spread over
the range, and half form a band of about equal multiply-adds, where size is not informative.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

from nas.core.costs import Cost, count
from search_spaces import Architecture, InputError, SearchSpace
from search_spaces.errors import Option

BAND_RATIO = 1.10
LEAST = 4
POOL = 256
POOLS = 3
"""Maximum growth factor of the pool to fill the band."""
TRIES = 20
"""Sampling attempts per architecture of the pool: small spaces repeat samples."""


@dataclass(frozen=True)
class Candidate:
    """An architecture to train, and its group: spread over the range of costs, or band of similar costs."""

    arch: Architecture
    cost: Cost
    group: Literal["spread", "band"] = "spread"

    @property
    def baselines(self) -> dict[str, int]:
        """The size baselines, under the names `nas.stages.rank.statistics` reads."""
        return {"params": self.cost.params, "non_embedding_params": self.cost.params - self.cost.embedding_params,
                "macs": self.cost.macs, "depth": self.arch.depth}


def choose(space: SearchSpace, n: int, seed: int, seq_len: int) -> list[Candidate]:
    """The n architectures to train, the same for the same seed, by rising multiply-adds within each group.

    Where the space has no full band, the band is smaller and the spread larger.

    Raises:
        InputError: n is less than 4, or the space has fewer distinct architectures.
    """
    if n < LEAST:
        raise InputError(Option("n"), f"{n} is not allowed; allowed: {LEAST} or more architectures")
    pool, window = _pool_and_window(space, n, seed, seq_len)
    band = _evenly(window, min(n // 2, len(window)), lambda candidate: candidate.cost.params)
    band = band if len(band) > 1 else []
    taken = {candidate.arch.key for candidate in band}
    rest = [candidate for candidate in pool if candidate.arch.key not in taken]
    spread = _evenly(rest, n - len(band), lambda candidate: candidate.cost.macs)
    return [*spread, *(replace(one, group="band") for one in band)]


def _pool_and_window(space: SearchSpace, n: int, seed: int, seq_len: int) -> tuple[list[Candidate], list[Candidate]]:
    """Sampled candidates by rising multiply-adds, and those in the band; samples more until it is full."""
    size, step, rng = space.size(), max(POOL, 8 * n), random.Random(seed)  # noqa: S311
    if size < n:
        raise InputError(space.name, f"has {size} distinct architectures, fewer than the requested {n}")
    sampled = {arch.key: arch for arch in (space.smallest(), space.largest())}
    pool: list[Candidate] = []
    for target in range(step, POOLS * step + 1, step):
        _draw(space, sampled, min(size, target), TRIES * step, rng)
        pool = _priced(list(sampled.values())[len(pool):], pool, seq_len)  # dict keeps insertion order
        window = _densest(pool)
        if len(window) >= n // 2 or len(sampled) < target:  # the band is full, or sampling finds no more
            break
    if len(pool) < n:
        raise InputError(space.name, f"sampling found {len(pool)} of its {size} distinct architectures, fewer than "
                                     f"the requested {n}")
    return pool, window


def _draw(space: SearchSpace, pool: dict[str, Architecture], target: int, draws: int, rng: random.Random) -> None:
    """Adds distinct samples until there are `target`, or the draws are used up."""
    for _ in range(draws):
        if len(pool) >= target:
            return
        arch = space.sample(rng)
        pool.setdefault(arch.key, arch)


def _priced(fresh: list[Architecture], pool: list[Candidate], seq_len: int) -> list[Candidate]:
    added = [Candidate(arch, count(arch, seq_len)) for arch in fresh]
    return sorted([*pool, *added], key=lambda candidate: (candidate.cost.macs, candidate.arch.key))


def _densest(pool: list[Candidate]) -> list[Candidate]:
    """The most candidates within the band's ratio of each other; of equally many those nearest the pool's median."""
    macs = np.array([candidate.cost.macs for candidate in pool])
    ends = np.searchsorted(macs, BAND_RATIO * macs, side="right")
    starts = np.arange(len(pool))
    off_median = np.abs((starts + ends) / 2 - len(pool) / 2)
    best = np.lexsort((off_median, starts - ends))[0]
    return pool[starts[best]:ends[best]]


def _evenly(pool: list[Candidate], n: int, size: Callable[[Candidate], int]) -> list[Candidate]:
    """The n candidates nearest to n even steps over the range of log size, each taken once; in the pool's order."""
    logs = np.log([size(candidate) for candidate in pool])
    steps = np.linspace(logs.min(), logs.max(), n)
    _, picked = linear_sum_assignment(np.abs(steps[:, None] - logs[None, :]))
    return [pool[index] for index in sorted(picked)]
