"""Reads `config.json`: values by name; errors name each unsupported one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from search_spaces import InputError
from search_spaces.errors import Fault, Option, shown
from search_spaces.kind import GREATEST

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu",
               "silu": "silu", "swish": "silu"}
"""Their name -> ours."""
THEIR_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu", "silu": "silu"}


class PretrainedSettings:
    """The fields of a config.

    Args:
        where: the file, for errors.
    """

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self.data, self.where = data, where

    def fault(self, name: str, message: str) -> InputError:
        """An error about a field."""
        return InputError(self.where, [Fault(name, message)])

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number of at least 1 that an architecture may have. Raises InputError."""
        value = self.data.get(name)
        value = default if value is None else value
        if value is None:
            raise self.fault(name, "is missing")
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= GREATEST:
            raise self.fault(name, f"{shown(value)} is not allowed; allowed: a whole number from 1 to {GREATEST:,}")
        return value

    def real(self, name: str, default: float) -> float:
        """A positive number. Raises InputError."""
        value = self.data.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
            raise self.fault(name, f"{shown(value)} is not allowed; allowed: a positive number")
        return float(value)

    def truth(self, name: str, default: bool) -> bool:
        """True or false. Raises InputError."""
        value = self.data.get(name, default)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.fault(name, f"{shown(value)} is not allowed; allowed: true or false")
        return value

    def only(self, name: str, *allowed: Any) -> None:
        """Raises InputError if a field has a value that is not supported; the first is the default."""
        value = self.data.get(name, allowed[0])
        if value not in allowed and value is not None:
            listed = ", ".join(shown(option) for option in allowed)
            raise self.fault(name, f"{shown(value)} is not supported; supported: {listed}")

    def activation(self, name: str, default: str) -> str:
        """Our name for an activation. Raises InputError."""
        value = self.data.get(name, default)
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise self.fault(name, f"{shown(value)} is not supported; supported: {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[value]

    def classes(self) -> int:
        """How many classes a classifier has. Raises InputError."""
        labels = self.data.get("id2label")
        if not isinstance(labels, Mapping) or not labels:
            return self.number("num_labels", 2)
        if set(labels) != {str(i) for i in range(len(labels))}:
            raise self.fault("id2label", f"the classes {shown(sorted(labels))} are not allowed; allowed: 0 to "
                                         f"{len(labels) - 1}")
        return len(labels)

    def shorter(self, name: str, wanted: int | None, longest: int) -> int:
        """The requested context, at most that of the model. Raises InputError."""
        if wanted is not None and wanted > longest:
            raise InputError(str(Option("context")), f"{wanted:,} is not allowed; allowed: 1 to {longest:,}, the "
                                                     f"{name} of {self.where}")
        return wanted or longest

    def head(self, wanted: str | None, by_ending: Mapping[str, str], possible: Sequence[str]) -> str:
        """The requested head, or that of the class named in the config. Raises InputError.

        Args:
            by_ending: the end of a class name -> the head it has.
            possible: heads that this family can have here.
        """
        if wanted is not None:
            if wanted not in possible:
                raise InputError("head", f"{wanted!r} is not allowed here; allowed: {', '.join(possible)}")
            return wanted
        named = self.data.get("architectures")
        cls = named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""
        named_head = next((head for ending, head in by_ending.items() if cls.endswith(ending)), None)
        if not cls:
            return possible[0]
        if named_head is None:
            without = f"; to import the model without its head, give {Option('head')} {possible[0]}"
            raise self.fault("architectures", f"{cls} is not supported{without if len(possible) > 1 else ''}")
        return named_head
