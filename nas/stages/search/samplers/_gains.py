"""How much hypervolume candidates would add to a front. Every objective is minimised."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nas.core.pareto import Floats, covers, undominated

PROBES = 8192
KEPT = 1024


class Gains:
    """The hypervolume each candidate would add, counted on random probes of what is not yet dominated.

    Exact volumes of thousands of candidates, again after every choice, would take minutes.

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
