"""A search space as rows of numbers: a choice is its index, a number its place between low (0) and high (1)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

Floats = NDArray[np.float64]
Params = dict[str, Any]
LISTED = 16
"""Numbers with at most this many values are choices."""
WAVES = np.arange(2, 7)
"""The cosines that describe a number, beside its place."""


class Dimension:
    """One parameter.

    Args:
        values: what can be chosen; empty for a number out of a range.
    """

    def __init__(self, distribution: BaseDistribution) -> None:
        self.distribution = distribution
        self.values = _listed(distribution)
        self._places_of = {(type(value), value): float(place) for place, value in enumerate(self.values)}

    def value(self, number: float) -> Any:
        """The parameter's value at a number."""
        if self.values:
            return self.values[int(number)]
        spread = self.distribution
        assert isinstance(spread, (IntDistribution, FloatDistribution))
        low, high = _ends(spread)
        found = low + float(number) * (high - low)
        found = min(max(math.exp(found) if spread.log else found, spread.low), spread.high)
        if spread.step is not None:
            found = spread.low + round((found - spread.low) / spread.step) * spread.step
            found = found - spread.step if found > spread.high else found
        return int(found) if isinstance(spread, IntDistribution) else float(found)

    def number(self, value: Any) -> float:
        """The number that stands for a value."""
        place = self._places_of.get((type(value), value))
        if place is not None:
            return place
        if isinstance(self.distribution, CategoricalDistribution):
            return float(self.distribution.to_internal_repr(value))
        if self.values:
            return float(self.values.index(value))
        assert isinstance(self.distribution, (IntDistribution, FloatDistribution))
        low, high = _ends(self.distribution)
        return ((math.log(value) if self.distribution.log else value) - low) / (high - low)

    def features(self, numbers: Floats) -> list[Floats]:
        """Groups of columns: its place among numeric choices, and what tells one choice from another."""
        if not self.values:
            place = np.sqrt(3.0) * (2 * numbers - 1)
            return [place[:, None], np.sqrt(2.0) * np.cos(np.pi * numbers[:, None] * WAVES) / WAVES]
        count = len(self.values)
        codes = numbers.astype(int)
        groups = [self._places()[codes][:, None]] if count == 2 or (count > 2 and self._ordered()) else []
        if count > 2:
            groups.append((np.eye(count) - 1 / count)[codes] / np.sqrt(1 - 1 / count))
        return groups

    def _ordered(self) -> bool:
        return all(isinstance(value, (int, float)) for value in self.values)

    def _places(self) -> Floats:
        places = np.arange(len(self.values), dtype=float)
        if self._ordered():
            places = np.argsort(np.argsort(np.array(self.values, dtype=float), kind="stable")).astype(float)
        return (places - places.mean()) / places.std()


class Encoding:
    """Parameters, in the order of their names."""

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.names = sorted(distributions)
        self.dimensions = [Dimension(distributions[name]) for name in self.names]
        self._values = [one.values for one in self.dimensions]
        self.counts = np.array([len(values) for values in self._values], dtype=int)

    def params(self, row: Floats) -> Params:
        """The parameters of a row."""
        return {name: values[int(number)] if values else one.value(number)
                for name, one, values, number in zip(self.names, self.dimensions, self._values, row.tolist())}

    def row(self, params: Mapping[str, Any]) -> Floats:
        """The row of parameters. Raises KeyError or ValueError for those of another space."""
        return np.array([one.number(params[name]) for name, one in zip(self.names, self.dimensions)])

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        """Rows with every value of a parameter equally often, as far as n allows."""
        rows = np.empty((n, len(self.names)))
        for column, count in enumerate(self.counts):
            ranks = rng.permutation(n)
            rows[:, column] = (ranks + rng.integers(count)) % count if count else (ranks + rng.random(n)) / n
        return rows

    def everything(self, limit: int) -> Floats | None:
        """Every row, or None where there are more than the limit."""
        if not self.counts.all() or math.prod(self.counts.tolist()) > limit:
            return None
        rows = list(itertools.product(*(range(count) for count in self.counts)))
        return np.array(rows, dtype=float).reshape(len(rows), len(self.names))

    def features(self, rows: Floats, active: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.int64]]:
        """The columns a model sees, 0 where a parameter does not matter, and the number of the group each belongs to.

        Args:
            active: which parameters of each row matter.
        """
        groups = [group * matters[:, None] for one, numbers, matters in zip(self.dimensions, rows.T, active.T)
                  for group in one.features(numbers)]
        sizes = [group.shape[1] for group in groups]
        columns = np.concatenate(groups, axis=1) if groups else np.empty((len(rows), 0))
        return columns, np.repeat(np.arange(len(groups)), sizes)


def _listed(distribution: BaseDistribution) -> tuple[Any, ...]:
    if isinstance(distribution, CategoricalDistribution):
        return tuple(distribution.choices)
    assert isinstance(distribution, (IntDistribution, FloatDistribution))
    if distribution.single():
        return (distribution.low,)
    if isinstance(distribution, FloatDistribution) or distribution.log:
        return ()
    found = range(distribution.low, distribution.high + 1, distribution.step)
    return tuple(found) if len(found) <= LISTED else ()


def _ends(spread: IntDistribution | FloatDistribution) -> tuple[float, float]:
    return (math.log(spread.low), math.log(spread.high)) if spread.log else (spread.low, spread.high)
