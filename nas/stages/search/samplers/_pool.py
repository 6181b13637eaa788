"""The points a batch is chosen from, each architecture once, with everything that is known without evaluating it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nas.core.pareto import Bools, Floats
from nas.stages.search.samplers._activity import Activity
from nas.stages.search.samplers._encoding import Encoding
from nas.stages.search.samplers._known import Fact, Known
from nas.stages.search.samplers._scales import tamed
from search_spaces.errors import InputError

Indices = NDArray[np.int64]


class CandidatePool:
    """Distinct architectures, each as the first row that was added for it.

    Args:
        signs: 1 for every exact objective that is minimised, -1 for one that is maximised.
        activity: which parameters rows have, in a define-by-run study; None if all rows have all.
        guessing: whether rows may be of parameters that the user's functions do not expect.
    """

    def __init__(self, encoding: Encoding, known: Known, signs: Floats, activity: Activity | None = None,
                 guessing: bool = False) -> None:
        self.encoding, self.known, self._signs = encoding, known, signs
        self.activity, self._guessing = activity, guessing
        self.rows = np.empty((0, len(encoding.names)))
        self.exact = np.empty((0, len(signs)))
        self.violation = np.empty(0)
        self.active = np.empty((0, len(encoding.names)), dtype=bool)
        self.hints = np.empty((0, 0))
        self.names: list[Hashable] = []
        self._index: dict[Hashable, int] = {}
        self._seen: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.names)

    def add(self, rows: Floats) -> Indices:
        """Add rows. Returns the index of each one's architecture in the pool."""
        rows = self.encoding.snapped(rows)
        present = np.ones(rows.shape, dtype=bool) if self.activity is None else self.activity(rows)
        unseen = {row.tobytes(): place for place, row in enumerate(rows) if row.tobytes() not in self._seen}
        places = list(unseen.values())
        if self._guessing:
            self._add_guesses(rows[places], present[places])
        else:
            self._add_certain(rows[places])
        return np.array([self._seen[row.tobytes()] for row in rows], dtype=np.int64)

    def _add_certain(self, rows: Floats) -> None:
        fresh = []
        everything = np.ones(rows.shape[1], dtype=bool)
        for row in rows:
            params = self.encoding.params(row)
            name = self.known.name(params, () if self.known.key else self.encoding.label(row, params))
            if self._enter(row, name):
                fresh.append((row, params, name))
        facts = self.known.facts([params for _, params, _ in fresh], [name for _, _, name in fresh])
        self._describe([row for row, _, _ in fresh], [everything] * len(fresh), facts)

    def _add_guesses(self, rows: Floats, present: Bools) -> None:
        """Add rows, each with the parameters it probably has and those that the user's functions read."""
        fresh = []
        for row, has, fact in zip(rows, present, self._guesses(rows, present)):
            if self._enter(row, fact.name):
                fresh.append((row, has, fact))
        self._describe([row for row, _, _ in fresh], [has for _, has, _ in fresh], [fact for _, _, fact in fresh])

    def _guesses(self, rows: Floats, present: Bools) -> list[Fact]:
        if self.known.is_empty and self.encoding.numbers_are_labels and present.all():
            return [Fact(tuple(row), (), 0.0, None, ()) for row in rows.tolist()]
        some = [self.encoding.params(row, has) for row, has in zip(rows, present)]
        labels = [self.encoding.label(row, params) for row, params in zip(rows, some)]
        if self.known.is_empty:
            return [Fact(label, (), 0.0, None, ()) for label in labels]
        try:
            return self.known.facts(some, [self.known.name(*one) for one in zip(some, labels)])
        except InputError:
            raise
        except Exception:  # of a user's function, for one of the rows: each on its own
            return [self._guess(row, has) for row, has in zip(rows, present)]

    def _guess(self, row: Floats, has: Bools) -> Fact:
        active = {name for name, on in zip(self.encoding.names, has) if on}
        label = self.encoding.label(row, self.encoding.params(row, has))
        fact = self.known.guess(self.encoding.params(row), active, label)
        has[:] = [name in active for name in self.encoding.names]
        return fact

    def add_trials(self, rows: Sequence[Floats], present: Sequence[Bools], facts: Sequence[Fact]) -> Indices:
        """Add rows of trials about which everything is known."""
        new = [(row, has, fact) for row, has, fact in zip(rows, present, facts) if self._enter(row, fact.name)]
        self._describe([row for row, _, _ in new], [has for _, has, _ in new], [fact for _, _, fact in new])
        return np.array([self._index[fact.name] for fact in facts], dtype=np.int64)

    def _enter(self, row: Floats, name: Hashable) -> bool:
        """Whether the architecture is new."""
        new = name not in self._index
        if new:
            self._index[name] = len(self.names)
            self.names.append(name)
        self._seen[row.tobytes()] = self._index[name]
        return new

    def _describe(self, rows: Sequence[Floats], present: Sequence[Bools], facts: Sequence[Fact]) -> None:
        if not facts:
            return
        exact = np.array([fact.exact for fact in facts]).reshape(len(facts), len(self._signs))
        unknown = np.array([fact.unknown for fact in facts])
        undefined = ~np.isfinite(exact).all(axis=1) & ~unknown
        violation = np.where(undefined, math.inf, [fact.violation for fact in facts])
        active = np.array([[fact.active is None or name in fact.active for name in self.encoding.names]
                           for fact in facts], dtype=bool).reshape(len(facts), -1) & np.array(present)
        exact = np.where((undefined | unknown)[:, None], 0.0, tamed(exact * self._signs))
        if unknown.any():  # as good as the best; the model distinguishes it once a trial was evaluated there
            others = np.concatenate([self.exact, exact[~unknown]])
            exact[unknown] = others.min(axis=0) if len(others) else 0.0
        hints = self._hint_rows(facts)
        self.rows = np.concatenate([self.rows, rows])
        self.exact = np.concatenate([self.exact, exact])
        self.violation = np.concatenate([self.violation, violation])
        self.active = np.concatenate([self.active, active])
        self.hints = np.concatenate([self.hints, hints]) if len(self.hints) else hints

    def _hint_rows(self, facts: Sequence[Fact]) -> Floats:
        lengths = {len(fact.hints) for fact in facts if not fact.unknown}
        lengths |= {self.hints.shape[1]} if self.hints.shape[1] else set()
        if len(lengths) > 1:
            sizes = " and ".join(map(str, sorted(lengths)))
            raise InputError("hints", f"have rows of {sizes} numbers; all rows must have the same length")
        width = max(lengths, default=0)
        if self.hints.shape[1] < width:  # nothing was known of what came before
            self.hints = np.zeros((len(self.hints), width))
        rows = np.array([fact.hints if fact.hints else (0.0,) * width for fact in facts]).reshape(len(facts), width)
        return tamed(np.nan_to_num(rows, posinf=0.0, neginf=0.0))

    def params(self, index: int) -> dict[str, Any]:
        """The parameters of one architecture, those that are not active included."""
        return self.encoding.params(self.rows[index])
