"""The points a batch is chosen from, each architecture once, with everything that is known without evaluating it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nas.search.samplers._encoding import Encoding, Floats, Params
from search_spaces.errors import InputError


@dataclass(frozen=True)
class Fact:
    """What is known of some parameters: see `Known`. `active` is None where all of them matter."""

    name: Hashable
    exact: tuple[float, ...]
    violation: float
    active: frozenset[str] | None
    hints: tuple[float, ...]


@dataclass(frozen=True)
class Known:
    """What is known of parameters without evaluating them; `PredictorSampler` says what each means."""

    exact: Mapping[int, Callable[[Params], float]] = field(default_factory=dict)
    exact_many: Mapping[int, Callable[[Sequence[Params]], Sequence[float]]] = field(default_factory=dict)
    key: Callable[[Params], Hashable] | None = None
    constraints: Sequence[Callable[[Params], float]] = ()
    active: Callable[[Params], Collection[str]] | None = None
    hints: Callable[[Sequence[Params]], Sequence[Sequence[float]]] | None = None

    @property
    def objectives(self) -> list[int]:
        """The numbers of the exact objectives."""
        return sorted({*self.exact, *self.exact_many})

    def name(self, params: Params) -> Hashable:
        """The name of the architecture of these parameters."""
        return self.key(dict(params)) if self.key else tuple(params.values())

    def facts(self, some: Sequence[Params], names: Sequence[Hashable]) -> list[Fact]:
        """What is known of parameters of these names."""
        if not some:
            return []
        return [Fact(name, tuple(exact.tolist()), self.violation(one),
                     frozenset(self.active(dict(one))) if self.active else None, hints)
                for one, name, exact, hints in zip(some, names, self.values(some), self._hints(some))]

    def _hints(self, some: Sequence[Params]) -> list[tuple[float, ...]]:
        if self.hints is None:
            return [()] * len(some)
        found = [tuple(map(float, one)) for one in self.hints([dict(one) for one in some])]
        if len(found) != len(some):
            raise InputError("hints", f"{len(found)} rows for {len(some)} parameters")
        return found

    def values(self, some: Sequence[Params]) -> Floats:
        """The exact objectives: parameters by objectives."""
        found = np.empty((len(some), len(self.objectives)))
        for column, objective in enumerate(self.objectives):
            many = self.exact_many.get(objective)
            values = many([dict(one) for one in some]) if many else [self.exact[objective](dict(one)) for one in some]
            if len(values) != len(some):
                raise InputError(f"exact_many[{objective}]", f"{len(values)} values for {len(some)} parameters")
            found[:, column] = values
        return found

    def violation(self, params: Params) -> float:
        """The sum of what exceeds the constraints; infinite where one is not a number."""
        excess = [max(float(one(dict(params))), 0.0) for one in self.constraints]
        return math.inf if any(map(math.isnan, excess)) else sum(excess)


class Pool:
    """Distinct architectures, each as the first row that was added for it.

    Args:
        signs: 1 for every exact objective that is minimised, -1 for one that is maximised.
    """

    def __init__(self, encoding: Encoding, known: Known, signs: Floats) -> None:
        self.encoding, self.known, self._signs = encoding, known, signs
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

    def add(self, rows: Floats) -> NDArray[np.int64]:
        """Take in rows. Returns where each one's architecture stands in the pool."""
        fresh: list[tuple[Floats, Params, Hashable]] = []
        for row in rows:
            if row.tobytes() not in self._seen:
                params = self.encoding.params(row)
                name = self.known.name(params)
                if self._enter(row, name):
                    fresh.append((row, params, name))
        facts = self.known.facts([params for _, params, _ in fresh], [name for _, _, name in fresh])
        self._describe([row for row, _, _ in fresh], facts)
        return np.array([self._seen[row.tobytes()] for row in rows], dtype=np.int64)

    def add_trials(self, rows: Sequence[Floats], facts: Sequence[Fact]) -> NDArray[np.int64]:
        """Take in rows of trials of which everything is known."""
        new = [(row, fact) for row, fact in zip(rows, facts) if self._enter(row, fact.name)]
        self._describe([row for row, _ in new], [fact for _, fact in new])
        return np.array([self._seen[row.tobytes()] for row in rows], dtype=np.int64)

    def _enter(self, row: Floats, name: Hashable) -> bool:
        """Whether the architecture is new."""
        new = name not in self._index
        if new:
            self._index[name] = len(self.names)
            self.names.append(name)
        self._seen[row.tobytes()] = self._index[name]
        return new

    def _describe(self, rows: Sequence[Floats], facts: Sequence[Fact]) -> None:
        if not facts:
            return
        exact = np.array([fact.exact for fact in facts]).reshape(len(facts), -1)
        undefined = ~np.isfinite(exact).all(axis=1)
        violation = np.where(undefined, math.inf, [fact.violation for fact in facts])
        active = [[fact.active is None or name in fact.active for name in self.encoding.names] for fact in facts]
        lengths = {len(fact.hints) for fact in facts} | ({self.hints.shape[1]} if len(self.hints) else set())
        if len(lengths) > 1:
            raise InputError("hints", f"rows of {' and '.join(map(str, sorted(lengths)))} numbers; all need as many")
        hints = np.nan_to_num(np.array([fact.hints for fact in facts]).reshape(len(facts), -1), posinf=0.0, neginf=0.0)
        self.rows = np.concatenate([self.rows, rows])
        self.exact = np.concatenate([self.exact, np.where(undefined[:, None], 0.0, exact * self._signs)])
        self.violation = np.concatenate([self.violation, violation])
        self.active = np.concatenate([self.active, np.array(active, dtype=bool).reshape(len(facts), -1)])
        self.hints = np.concatenate([self.hints, hints]) if len(self.hints) else hints

    def params(self, index: int) -> dict[str, Any]:
        """The parameters of one architecture."""
        return self.encoding.params(self.rows[index])
