"""The process of a command: its standard streams, and the signals that stop it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from nas.core.stopping import signals_to

STOPPED = 130
"""Exit code of a command that was stopped by Ctrl-C, SIGTERM or SIGHUP; rerun it to resume."""


def open_streams() -> None:
    """Connect closed standard streams (`nas ... >&-`) to the null device.

    Otherwise the next opened file gets the number of a stream, and library output goes into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as we run


class Stops:
    """Signal handler: raises KeyboardInterrupt, so that clean-up runs.

    Once the command has ended, and only its log is left to write, another signal ends the process at once.
    """

    def __init__(self) -> None:
        self.requested = self.ending = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.ending:
            os._exit(STOPPED)
        self.requested = True
        raise KeyboardInterrupt


@contextmanager
def stoppable() -> Iterator[Stops]:
    """Let SIGTERM, which a cluster sends before it takes a machine away, and SIGHUP stop the command like Ctrl-C."""
    stops = Stops()
    with signals_to(stops):
        yield stops
