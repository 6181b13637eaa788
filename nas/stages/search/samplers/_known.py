"""Known facts about parameters without evaluation: calls and checks the user's functions."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nas.core.pareto import Floats
from nas.stages.search.samplers._problem import Params, Problem
from search_spaces.errors import InputError


@dataclass(frozen=True)
class Fact:
    """Known facts about parameters: see `Known`.

    Args:
        active: the names of the parameters that matter; None if all do.
        unknown: whether the user's functions need a parameter that no trial has had yet.
    """

    name: Hashable
    exact: tuple[float, ...]
    violation: float
    active: frozenset[str] | None
    hints: tuple[float, ...]
    unknown: bool = False


class Known(Problem):
    """A problem whose functions are called and checked."""

    @property
    def objectives(self) -> list[int]:
        """The numbers of the exact objectives."""
        return sorted({*self.exact, *self.exact_many})

    @property
    def is_empty(self) -> bool:
        """Whether no functions are given."""
        return not (self.exact or self.exact_many or self.key or self.constraints or self.active or self.hints)

    def name(self, params: Params, label: Hashable) -> Hashable:
        """The name of the architecture of these parameters.

        Args:
            label: names them where the user has no key.

        Raises:
            InputError: the user's key is not hashable.
        """
        if self.key is None:
            return label
        name = self.key(dict(params))
        try:
            hash(name)
        except TypeError:
            raise InputError("key", f"{name!r} is a {type(name).__name__}, which is not hashable; return a str or a "
                                    "tuple of numbers and strings") from None
        return name

    def facts(self, some: Sequence[Params], names: Sequence[Hashable]) -> list[Fact]:
        """What is known about parameters with these names."""
        if not some:
            return []
        return [Fact(name, tuple(exact.tolist()), self.violation(one),
                     frozenset(self.active(dict(one))) if self.active else None, hints)
                for one, name, exact, hints in zip(some, names, self.values(some), self._hints(some))]

    def guess(self, params: Params, active: set[str], label: Hashable) -> Fact:
        """What is known about parameters, some of which may not exist.

        Where a user's function reads a parameter that was thought to be missing, it is one of them; where it fails
        otherwise, nothing is known.

        Args:
            active: the names of those that are thought to exist; grows.
        """
        for _ in range(len(params) + 1):
            some = {name: value for name, value in params.items() if name in active}
            try:
                return self.facts([some], [self.name(some, label)])[0]
            except InputError:
                raise
            except KeyError as error:
                if not error.args or error.args[0] not in params or error.args[0] in active:
                    break
                active.add(error.args[0])
            except Exception:  # of a user's function, for parameters that no trial may ever have
                break
        return Fact(("unknown", label), (math.nan,) * len(self.objectives), 0.0, None, (), unknown=True)

    def _hints(self, some: Sequence[Params]) -> list[tuple[float, ...]]:
        if self.hints is None:
            return [()] * len(some)
        hints = [tuple(map(float, one)) for one in self.hints([dict(one) for one in some])]
        if len(hints) != len(some):
            raise InputError("hints", f"{len(hints)} rows for {len(some)} parameters")
        return hints

    def values(self, some: Sequence[Params]) -> Floats:
        """The exact objectives: parameters by objectives."""
        table = np.empty((len(some), len(self.objectives)))
        for column, objective in enumerate(self.objectives):
            many = self.exact_many.get(objective)
            values = many([dict(one) for one in some]) if many else [self.exact[objective](dict(one)) for one in some]
            if len(values) != len(some):
                raise InputError(f"exact_many[{objective}]", f"{len(values)} values for {len(some)} parameters")
            table[:, column] = values
        return table

    def violation(self, params: Params) -> float:
        """The sum of what exceeds the constraints; infinite where one is not a number."""
        excess = [_number("constraints", one(dict(params))) for one in self.constraints]
        return math.inf if any(map(math.isnan, excess)) else sum(max(one, 0.0) for one in excess)


def _number(what: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(what, f"returned {value!r}; allowed: a number") from None
