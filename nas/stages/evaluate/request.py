"""The request of the stage `evaluate`."""

from __future__ import annotations

from dataclasses import dataclass

from search_spaces import InputError
from search_spaces.errors import Option

SPLITS = ("valid", "test")


@dataclass(frozen=True)
class EvaluateRequest:
    """Architectures in a trained supernet, or a subnet. Raises InputError for an unknown split.

    Args:
        of: a finished run or a subnet.
        arch: of a run, an architecture's JSON file or folder; the smallest and the largest by default.
        limit: size of a random sample of examples; all by default.
    """

    of: str
    arch: str | None = None
    split: str = "valid"
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise InputError(Option("split"), f"{self.split!r} is not allowed; allowed: {', '.join(SPLITS)}")
