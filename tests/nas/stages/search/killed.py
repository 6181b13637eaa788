"""The command line, killed where `KILL=moment/n` says: at the n-th trial, line of the journal or row of the table."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from nas.cli import main
from nas.core import study
from nas.stages.search.record import TrialsTable
from nas.stages.search.search import Search


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at(count: int, now: Any, instead: Any) -> Any:
    """A function that does something else at its n-th call."""
    calls = 0

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        return instead(*arguments, **named) if calls == count else now(*arguments, **named)

    return call


def half_a_line(self: study.Study, *arguments: Any, **named: Any) -> None:
    """Die while the journal's line is half written."""
    path = Path(self.path)
    before = path.stat().st_size
    honest(self, *arguments, **named)
    os.truncate(path, before + (path.stat().st_size - before) // 2)
    die()


moment, number = os.environ["KILL"].split("/")
honest = study.Study.tell
if moment == "line":
    study.Study.tell = at(int(number), honest, half_a_line)  # type: ignore[method-assign]
elif moment == "trial":
    Search.accept = at(int(number), Search.accept, lambda *_: die())  # type: ignore[method-assign]
else:
    TrialsTable.add = at(int(number), TrialsTable.add, lambda *_: die())  # type: ignore[method-assign]
sys.exit(main())
