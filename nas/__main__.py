"""`python -m nas` is `nas`: the first lines of the program, before anything heavy is imported."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Run the command line and return its exit code; a signal during start-up or exit prints no traceback."""
    _handle(_leave)
    atexit.register(signal.pthread_sigmask, signal.SIG_BLOCK, SIGNALS)  # runs last: Python drops the handlers then,
    # and libraries take seconds to unload, in which a signal would turn the exit code of a finished command
    if sys.path and Path(sys.path[0]).absolute() == Path.cwd() and Path.cwd() not in Path(__file__).absolute().parents:
        del sys.path[0]  # `python -m` would import from the working directory
    from nas.cli import main as run

    code = run()
    _handle(lambda *_: os._exit(code))  # all work and output is done
    return code


def _handle(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    """Exit before any work has started."""
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
