"""The points a batch is chosen from, each architecture once, with everything that is known without evaluating it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nas.search.samplers._encoding import Encoding, Floats, Params
from search_spaces.errors import InputError


@dataclass(frozen=True)
class Fact:
    """The name, the exact objectives and the violation of some parameters."""

    name: Hashable
    exact: tuple[float, ...]
    violation: float


@dataclass(frozen=True)
class Known:
    """What is known of parameters without evaluating them; `PredictorSampler` says what each means."""

    exact: Mapping[int, Callable[[Params], float]] = field(default_factory=dict)
    exact_many: Mapping[int, Callable[[Sequence[Params]], Sequence[float]]] = field(default_factory=dict)
    key: Callable[[Params], Hashable] | None = None
    constraints: Sequence[Callable[[Params], float]] = ()

    @property
    def objectives(self) -> list[int]:
        """The numbers of the exact objectives."""
        return sorted({*self.exact, *self.exact_many})

    def name(self, params: Params) -> Hashable:
        """The name of the architecture of these parameters."""
        return self.key(dict(params)) if self.key else tuple(params.values())

    def fact(self, params: Params) -> Fact:
        """What is known of one trial's parameters."""
        return Fact(self.name(params), tuple(self.values([params])[0].tolist()), self.violation(params))

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
        self.names: list[Hashable] = []
        self._index: dict[Hashable, int] = {}
        self._seen: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.names)

    def add(self, rows: Floats) -> NDArray[np.int64]:
        """Take in rows. Returns where each one's architecture stands in the pool."""
        fresh: list[tuple[Floats, Params]] = []
        for row in rows:
            if row.tobytes() not in self._seen:
                params = self.encoding.params(row)
                if self._enter(row, self.known.name(params)):
                    fresh.append((row, params))
        if fresh:
            some = [params for _, params in fresh]
            self._describe([row for row, _ in fresh], self.known.values(some), [*map(self.known.violation, some)])
        return np.array([self._seen[row.tobytes()] for row in rows], dtype=np.int64)

    def add_trials(self, rows: Sequence[Floats], facts: Sequence[Fact]) -> NDArray[np.int64]:
        """Take in rows of trials of which everything is known."""
        new = [(row, fact) for row, fact in zip(rows, facts) if self._enter(row, fact.name)]
        if new:
            exact = np.array([fact.exact for _, fact in new]).reshape(len(new), -1)
            self._describe([row for row, _ in new], exact, [fact.violation for _, fact in new])
        return np.array([self._seen[row.tobytes()] for row in rows], dtype=np.int64)

    def _enter(self, row: Floats, name: Hashable) -> bool:
        """Whether the architecture is new."""
        new = name not in self._index
        if new:
            self._index[name] = len(self.names)
            self.names.append(name)
        self._seen[row.tobytes()] = self._index[name]
        return new

    def _describe(self, rows: Sequence[Floats], exact: Floats, excess: Sequence[float]) -> None:
        violation = np.array(excess, dtype=float)
        undefined = np.array([not np.isfinite(values).all() for values in exact])
        violation[undefined] = math.inf
        self.rows = np.concatenate([self.rows, rows])
        self.exact = np.concatenate([self.exact, np.where(undefined[:, None], 0.0, exact * self._signs)])
        self.violation = np.concatenate([self.violation, violation])

    def params(self, index: int) -> dict[str, Any]:
        """The parameters of one architecture."""
        return self.encoding.params(self.rows[index])
