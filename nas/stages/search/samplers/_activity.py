"""Which parameters a trial of a define-by-run study has, given the others: learnt from the finished trials."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nas.core.pareto import Bools, Floats

DEPTH = 4
THRESHOLDS = 16
LEARNT_ON = 320
"""Number of latest trials that conditions are learned from."""


@dataclass(frozen=True)
class Leaf:
    """Rows that reach it have the parameter or lack it."""

    present: bool


@dataclass(frozen=True)
class TreeSplit:
    """Rows go one way where a column is at most (or, for choices without an order, equals) a limit."""

    column: int
    limit: float
    ordered: bool
    yes: TreeSplit | Leaf
    no: TreeSplit | Leaf


class Activity:
    """A small decision tree for every set of parameters that are always present together.

    Args:
        rows: encoded trials; entries of missing parameters mean nothing.
        present: which parameters each trial has.
        ordered: which columns have an order.

    Attributes:
        sets: for each set of parameters that not every trial has, which columns are in it.
    """

    def __init__(self, rows: Floats, present: Bools, ordered: Bools) -> None:
        self._ordered = ordered
        rows, present = rows[-LEARNT_ON:], present[-LEARNT_ON:]
        patterns, member = np.unique(present.T, axis=0, return_inverse=True)
        self.sets: list[Bools] = []
        self._trees: list[tuple[Bools, list[int], TreeSplit | Leaf]] = []
        for number in np.argsort(-patterns.sum(axis=1), kind="stable"):  # parents before children
            pattern, columns = patterns[number], member.reshape(-1) == number
            if pattern.all():
                continue
            above = np.flatnonzero(present[pattern].all(axis=0) & ~columns) if pattern.any() else np.empty(0, int)
            tree = self._grow(rows, pattern, above, present, DEPTH)
            self.sets.append(columns)
            self._trees.append((columns, sorted(_columns(tree)), tree))

    def __call__(self, rows: Floats) -> Bools:
        """Which parameters each row has."""
        active = np.ones(rows.shape, dtype=bool)
        for columns, parents, tree in self._trees:
            active[:, columns] = (_follow(tree, rows) & active[:, parents].all(axis=1))[:, None]
        return active

    def _grow(self, rows: Floats, target: Bools, columns: NDArray[np.int64], present: Bools,
              depth: int) -> TreeSplit | Leaf:
        best: tuple[float, int, float, Bools] | None = None
        if depth and 0 < target.sum() < len(target):
            for column in columns.tolist():
                for limit in self._limits(rows[present[:, column], column], bool(self._ordered[column])):
                    side = present[:, column] & self._side(rows[:, column], limit, bool(self._ordered[column]))
                    impurity = _impurity(target[side]) + _impurity(target[~side])
                    if 0 < side.sum() < len(side) and (best is None or impurity < best[0] - 1e-9):
                        best = impurity, column, limit, side
        if best is None:
            return Leaf(bool(2 * target.sum() >= len(target)))
        _, column, limit, side = best
        yes, no = (self._grow(rows[some], target[some], columns, present[some], depth - 1) for some in (side, ~side))
        return TreeSplit(column, limit, bool(self._ordered[column]), yes, no)

    @staticmethod
    def _limits(values: Floats, ordered: bool) -> list[float]:
        distinct = np.unique(values)
        if not ordered:
            return distinct.tolist()
        middles = (distinct[1:] + distinct[:-1]) / 2
        chosen = np.linspace(0, len(middles) - 1, min(THRESHOLDS, len(middles))).astype(int)
        return middles[chosen].tolist()

    @staticmethod
    def _side(values: Floats, limit: float, ordered: bool) -> Bools:
        return values <= limit if ordered else values == limit


def _columns(tree: TreeSplit | Leaf) -> set[int]:
    return {tree.column} | _columns(tree.yes) | _columns(tree.no) if isinstance(tree, TreeSplit) else set()


def _follow(tree: TreeSplit | Leaf, rows: Floats) -> Bools:
    if isinstance(tree, Leaf):
        return np.full(len(rows), tree.present)
    side = Activity._side(rows[:, tree.column], tree.limit, tree.ordered)
    active = np.empty(len(rows), dtype=bool)
    active[side], active[~side] = _follow(tree.yes, rows[side]), _follow(tree.no, rows[~side])
    return active


def _impurity(target: Bools) -> float:
    share = target.mean() if len(target) else 0.0
    return float(len(target) * share * (1 - share))
