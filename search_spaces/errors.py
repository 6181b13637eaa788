"""A user's mistake, told in sentences: what was wrong, where, and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong: the key path it stands at, and a sentence about it."""

    key: str
    says: str

    def __str__(self) -> str:
        return f"{self.key}: {self.says}" if self.key else self.says


class InputError(ValueError):
    """Everything that is wrong with one input.

    Args:
        where: the file or value that was read, named as the user knows it.
        faults: what is wrong with it; a plain string stands for one fault of the whole input.
    """

    exit_code = 2
    """What the command line ends with."""

    def __init__(self, where: str, faults: str | Iterable[Fault]) -> None:
        self.where = where
        self.faults = (Fault("", faults),) if isinstance(faults, str) else tuple(dict.fromkeys(faults))
        super().__init__(where, self.faults)

    def __str__(self) -> str:
        lines = [f"{self.where}: {fault}" if self.where else str(fault) for fault in self.faults]
        return "\n".join(lines)


def did_you_mean(asked: str, known: Iterable[str], n: int = 1, cutoff: float = 0.6) -> str:
    """The end of a sentence about an unknown name: what may have been meant; nothing where no known name is close.

    Args:
        n: names at most.
        cutoff: how alike they have to be, from 0 to 1.
    """
    close = difflib.get_close_matches(asked, list(known), n=n, cutoff=cutoff)
    return f"; did you mean {' or '.join(close)}?" if close else ""


class CheckFailedError(InputError):
    """What was made is not what it should be, so it is not written: the input was right, a check failed."""

    exit_code = 1
