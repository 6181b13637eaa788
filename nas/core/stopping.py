"""Stopping a stage: after Ctrl-C or a signal, the stage ends with `Stopped`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from search_spaces.errors import with_references

Stop = Callable[[], bool]
"""Whether the user asked to stop."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that stop a command: Ctrl-C, preemption by a cluster, a closed terminal."""


class Stopped(Exception):  # noqa: N818 - not an error
    """The user stopped a stage. Finished work is kept; the same request resumes it.

    Args:
        message: how far it got, and the command that resumes it.
    """

    def __init__(self, message: str = "stopped; rerun the same command to resume") -> None:
        super().__init__(message)
        self.marked = message
        """The sentence with marks around options and commands; see `search_spaces.errors.with_references`."""

    def __str__(self) -> str:
        return with_references(self.marked)


@contextmanager
def signals_to(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Send the signals that stop a command to `handler`, in the main thread; only there can handlers be set.

    A signal that the process ignores (`nohup`, jobs in the background of a shell) stays ignored.
    """
    here = threading.current_thread() is threading.main_thread()
    heard = [number for number in SIGNALS if here and signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
