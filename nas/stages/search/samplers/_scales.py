"""Numeric distributions: their values, in order, as numbers between 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    check_distribution_compatibility,
)

from nas.core.pareto import Floats

LISTED = 16
"""Numbers with at most this many values are choices."""
EXACT = 2**52
"""Ranges with more integers than this are not snapped: floats between 0 and 1 cannot tell them apart."""
HUGE = 1e100
"""Numbers beyond this are compressed, so that their squares and differences are finite."""


def tamed(values: Floats) -> Floats:
    """Numbers in the same order, the huge ones among them by their logarithm."""
    size = np.abs(values)
    return np.where(size > HUGE, np.sign(values) * HUGE * (1 + np.log(np.maximum(size, HUGE) / HUGE)), values)


class Scale:
    """The values of a numeric distribution; a stepped one has every multiple of its step, both ends included."""

    def __init__(self, distribution: IntDistribution | FloatDistribution) -> None:
        self.low, self.high, self.log = distribution.low, distribution.high, distribution.log
        self.step, self.is_int = distribution.step, isinstance(distribution, IntDistribution)
        self.last = _steps(distribution)
        """The number of the last multiple of the step; None without a step."""
        half = 0.5 if self.is_int else 0.0  # all integers of a logarithmic range get their share
        self._ends = (math.log(self.low - half), math.log(self.high + half)) if self.log else (self.low, self.high)

    def value(self, number: float) -> Any:
        """The value nearest to a number."""
        number = min(max(float(number), 0.0), 1.0)
        if self.last is not None and not self.log:
            return self.multiple(round(number * self.last))
        low, high = self._ends
        value = low * (1 - number) + high * number  # high - low may overflow
        value = min(max(math.exp(value) if self.log else value, self.low), self.high)
        return int(min(max(round(value), self.low), self.high)) if self.is_int else float(value)

    def multiple(self, number: int) -> Any:
        """The value that many steps above the low end."""
        if self.is_int:
            return int(self.low + number * self.step)  # type: ignore[operator]
        return min(float(Decimal(str(self.low)) + number * Decimal(str(self.step))), float(self.high))

    def number(self, value: float) -> float:
        """The number of a value; that of the nearest end outside the range."""
        value = min(max(value, self.low), self.high)
        if self.last is not None and not self.log:
            return round(value / self.step - self.low / self.step) / max(self.last, 1)  # type: ignore[operator]
        low, high = self._ends
        place = math.log(value) if self.log else value
        return min(max((place / 2 - low / 2) / (high / 2 - low / 2), 0.0), 1.0)

    def snapped(self, numbers: Floats) -> Floats:
        """The numbers of the values nearest to numbers."""
        if self.last is None or self.last > EXACT:
            return numbers
        if not self.log:
            return np.round(numbers * self.last) / self.last
        low, high = self._ends
        values = np.clip(np.round(np.exp(low * (1 - numbers) + high * numbers)), self.low, self.high)
        return np.asarray((np.log(values) - low) / (high - low))

    def within(self, value: float) -> Any:
        """The value of this distribution nearest to one of another."""
        if self.last is None and not self.is_int:
            return float(min(max(value, self.low), self.high))
        return self.value(self.number(value))


def listed(distribution: BaseDistribution) -> tuple[Any, ...]:
    """The values of a distribution with few of them, or nothing."""
    if isinstance(distribution, CategoricalDistribution):
        return tuple(distribution.choices)
    assert isinstance(distribution, (IntDistribution, FloatDistribution))
    if distribution.single():
        return (distribution.low,)
    last = _steps(distribution)
    if last is None or last >= LISTED or distribution.log:
        return ()
    scale = Scale(distribution)
    return tuple(scale.multiple(number) for number in range(last + 1))


def hull(distributions: Iterable[BaseDistribution]) -> BaseDistribution:
    """A distribution that contains all of a parameter; the last one where they are of different kinds."""
    joined: BaseDistribution | None = None
    for one in distributions:
        joined = one if joined is None or joined == one else _joined(joined, one)
    assert joined is not None
    return joined


def _joined(old: BaseDistribution, new: BaseDistribution) -> BaseDistribution:
    try:
        check_distribution_compatibility(old, new)
    except ValueError:
        return new
    assert isinstance(old, (IntDistribution, FloatDistribution)) and isinstance(new, type(old))
    low, high = min(old.low, new.low), max(old.high, new.high)
    if isinstance(old, IntDistribution):
        same = old.step == new.step and (old.low - new.low) % old.step == 0
        return IntDistribution(int(low), int(high), log=old.log, step=old.step if same else 1)
    aligned = old.step is not None and old.step == new.step and old.low == new.low
    return FloatDistribution(low, high, log=old.log, step=old.step if aligned else None)


def _steps(distribution: IntDistribution | FloatDistribution) -> int | None:
    if isinstance(distribution, IntDistribution):
        return (distribution.high - distribution.low) // distribution.step
    if distribution.step is None:
        return None
    low, high, step = (Decimal(str(one)) for one in (distribution.low, distribution.high, distribution.step))
    return int((high - low) / step)
