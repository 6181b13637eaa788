"""Stopping a stage: the user asks for it with Ctrl-C or a signal, and the stage ends with `Stopped`."""

from __future__ import annotations

from collections.abc import Callable

from search_spaces.errors import with_references

Stop = Callable[[], bool]
"""Whether the user asked to stop."""


class Stopped(Exception):  # noqa: N818 - not an error
    """The user stopped a stage. What was finished is kept; the same request again resumes it.

    Args:
        says: how far it got, and the command that resumes it.
    """

    def __init__(self, says: str = "stopped; run the same command again to resume") -> None:
        super().__init__(says)
        self.marked = says
        """The sentence with marks around options and commands; see `search_spaces.errors.with_references`."""

    def __str__(self) -> str:
        return with_references(self.marked)
