"""A search space as rows of numbers: the index of a choice, or the position of a number from low (0) to high (1)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution

from nas.core.pareto import Bools, Floats
from nas.stages.search.samplers._problem import Params
from nas.stages.search.samplers._scales import Scale, listed

ALIKE = 3
"""Minimum number of parameters with the same choices that form a group."""
WAVES = np.arange(2, 7)
"""Frequencies of the cosines that describe a number, besides its position."""


class Dimension:
    """One parameter.

    Attributes:
        values: the values to choose from; empty for a number out of a range.
        ordered: whether the values are numbers, or the parameter is one.
    """

    def __init__(self, distribution: BaseDistribution) -> None:
        self.distribution = distribution
        self.values = listed(distribution)
        self.scale = None if self.values else Scale(distribution)  # type: ignore[arg-type]
        self.ordered = all(isinstance(value, (int, float)) and math.isfinite(value) for value in self.values)
        self._places = self._ranks()
        self._tables = self._feature_tables()
        self.same = np.arange(len(self.values))  # Optuna takes choices such as 1 and True for the first of them
        if isinstance(distribution, CategoricalDistribution):
            self.same = np.array([int(distribution.to_internal_repr(value)) for value in self.values])
        try:
            self._index = {(type(value), value): float(place) for place, value in zip(self.same, self.values)}
        except TypeError:  # choices such as lists
            self._index = {}

    def value(self, number: float) -> Any:
        """The parameter's value at a number."""
        return self.values[int(number)] if self.scale is None else self.scale.value(number)

    def number(self, value: Any) -> float:
        """The number that stands for a value. Raises ValueError where it is not a value of the parameter."""
        try:
            place = self._index.get((type(value), value))
        except TypeError:
            place = None
        if place is not None:
            return place
        if self.scale is not None:
            return self.scale.number(self.distribution.to_internal_repr(value))
        if not self.distribution._contains(self.distribution.to_internal_repr(value)):
            raise ValueError(f"{value!r} is not one of {self.values}")
        if isinstance(self.distribution, CategoricalDistribution):
            return float(self.distribution.to_internal_repr(value))
        return float(np.argmin([abs(one - value) for one in self.values]))

    def label(self, value: Any, number: float) -> float:
        """A key that is equal for equal values only: several floats between 0 and 1 may mean the same value."""
        if self.scale is None or (self.scale.last is not None and not self.scale.is_int):
            return number
        return float(value) if self.scale.last is None else int(value)

    def features(self, numbers: Floats) -> list[Floats]:
        """Groups of columns: its position if it is ordered, and columns that distinguish the choices."""
        if self.scale is not None:
            place = np.sqrt(3.0) * (2 * numbers - 1)
            return [place[:, None], np.sqrt(2.0) * np.cos(np.pi * numbers[:, None] * WAVES) / WAVES]
        codes = numbers.astype(int)
        return [table[codes] for table in self._tables]

    def coordinates(self, numbers: Floats) -> Floats:
        """Columns in which the ends of a range, and any two unordered choices, are 1 apart."""
        if self.scale is not None:
            return numbers[:, None] - 0.5
        count, codes = len(self.values), numbers.astype(int)
        if count == 1:
            return np.zeros((len(numbers), 0))
        if count == 2 or self.ordered:
            return (self._places / (count - 1) - 0.5)[codes][:, None]
        return (np.eye(count)[codes] - 1 / count) / np.sqrt(2.0)

    def _feature_tables(self) -> list[Floats]:
        """The columns of every choice, for each group of `features`."""
        count, places = len(self.values), self._places
        tables = []
        if count == 2 or (count > 2 and self.ordered):
            tables.append(((places - places.mean()) / places.std())[:, None])
        if count > 2:
            tables.append((np.eye(count) - 1 / count) / np.sqrt(1 - 1 / count))
        return tables

    def _ranks(self) -> Floats:
        places = np.arange(len(self.values), dtype=float)
        if self.ordered:
            places = np.argsort(np.argsort(np.array(self.values, dtype=float), kind="stable")).astype(float)
        return places


class Encoding:
    """Parameters, in the order of their names.

    Attributes:
        numbers_are_labels: whether rows of different numbers have different values.
    """

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.names = sorted(distributions)
        self.dimensions = [Dimension(distributions[name]) for name in self.names]
        self._values = [one.values for one in self.dimensions]
        self.counts = np.array([len(values) for values in self._values], dtype=int)
        self.numbers_are_labels = all(one.scale is None for one in self.dimensions)

    def params(self, row: Floats, active: Bools | None = None) -> Params:
        """The parameters of a row, or the active ones of them."""
        params = {name: values[int(number)] if values else one.value(number)
                 for name, one, values, number in zip(self.names, self.dimensions, self._values, row.tolist())}
        if active is None or active.all():
            return params
        return {name: value for on, (name, value) in zip(active, params.items()) if on}

    def row(self, params: Mapping[str, Any], rng: np.random.Generator | None = None) -> Floats:
        """The row of parameters.

        Args:
            rng: draws the parameters that are missing.

        Raises:
            KeyError: a parameter is missing, and there is no `rng`.
            ValueError: a value is not one of this space.
        """
        whole = rng is None or all(name in params for name in self.names)
        drawn = None if whole or rng is None else self.sample(rng, 1)[0]
        return np.array([one.number(params[name]) if drawn is None or name in params else drawn[i]
                         for i, (name, one) in enumerate(zip(self.names, self.dimensions))])

    def snapped(self, rows: Floats) -> Floats:
        """The rows with every number where a value is: rows of the same values are equal."""
        merged = rows.copy()
        for column, one in enumerate(self.dimensions):
            merged[:, column] = (one.same[rows[:, column].astype(int)] if one.scale is None
                                else one.scale.snapped(rows[:, column]))
        return merged

    def label(self, row: Floats, params: Mapping[str, Any]) -> tuple[float | None, ...]:
        """A key that distinguishes the parameters of a row from others; None for those that are missing."""
        if self.numbers_are_labels and len(params) == len(self.names):
            return tuple(row.tolist())
        return tuple(one.label(params[name], number) if name in params else None
                     for name, one, number in zip(self.names, self.dimensions, row.tolist()))

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        """Rows with every value of a parameter equally often, as far as n allows."""
        rows = np.empty((n, len(self.names)))
        for column, count in enumerate(self.counts):
            ranks = rng.permutation(n)
            rows[:, column] = (ranks + rng.integers(count)) % count if count else (ranks + rng.random(n)) / n
        return self.snapped(rows)

    def alike(self, rng: np.random.Generator, n: int) -> Floats:
        """Rows in which parameters with the same choices have the same one, such as all layers of a model.

        There are none where fewer than `ALIKE` parameters have the same choices.
        """
        groups: dict[str, list[int]] = {}
        for column, values in enumerate(self._values):
            if len(values) > 1:
                groups.setdefault(repr(values), []).append(column)
        shared = [columns for columns in groups.values() if len(columns) >= ALIKE]
        rows = self.sample(rng, n if shared else 0)
        for columns in shared:
            rows[:, columns] = rows[:, columns[:1]]
        return rows

    def everything(self, limit: int) -> Floats | None:
        """Every row, or None if there are more than the limit."""
        if not self.counts.all() or math.prod(self.counts.tolist()) > limit:
            return None
        rows = list(itertools.product(*(range(count) for count in self.counts)))
        return np.array(rows, dtype=float).reshape(len(rows), len(self.names))

    def features(self, rows: Floats, active: Bools) -> tuple[Floats, NDArray[np.int64]]:
        """The columns a model sees, 0 where a parameter is not active, and the number of the group each belongs to.

        Args:
            active: which parameters of each row matter.
        """
        groups = [group * matters[:, None] for one, numbers, matters in zip(self.dimensions, rows.T, active.T)
                  for group in one.features(numbers)]
        sizes = [group.shape[1] for group in groups]
        columns = np.concatenate(groups, axis=1) if groups else np.empty((len(rows), 0))
        return columns, np.repeat(np.arange(len(groups)), sizes)

    def coordinates(self, rows: Floats, active: Bools) -> Floats:
        """Where rows are, for distances between them; parameters that are not active are in the middle."""
        return np.concatenate([np.empty((len(rows), 0)), *(
            one.coordinates(numbers) * matters[:, None]
            for one, numbers, matters in zip(self.dimensions, rows.T, active.T))], axis=1)
