"""A running job: a process whose output lines are handled as they arrive, and which never outlives this program."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hardware_profiles.transports._base import Stop

LEASE_S, BEAT_S = 60.0, 10.0
"""Lease and heartbeat interval: the job exits if no heartbeat arrives within the lease."""
GRACE_S, LEAVE_S = 5.0, 60.0
"""Seconds a process may take to exit: after a request to stop, and after its work is done."""
_POLL_S = 0.2


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, the last lines of its standard error, and whether it was stopped on
    request."""

    code: int
    errors: tuple[str, ...] = ()
    stopped: bool = False

    @property
    def message(self) -> str:
        """The last line of its output."""
        return self.errors[-1] if self.errors else "no output"


def stream(command: Sequence[str], take: Callable[[str], None], stop: Stop, cwd: Path | None = None) -> Ended:
    """Run a command, hand over each whole line of its output, and keep it alive with lines on its standard input.

    An incomplete last line is dropped. In any case, even after an exception of `take`, the standard input of the
    process is closed and it exits.
    """
    process = subprocess.Popen(list(command), cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE,  # noqa: S603
                               stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace",
                               start_new_session=True)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    errors: deque[str] = deque(maxlen=40)
    readers = [threading.Thread(target=_lines, args=(process.stdout, lines), daemon=True),
               threading.Thread(target=_errors, args=(process.stderr, errors), daemon=True)]
    for reader in readers:
        reader.start()
    stopped = True
    try:
        stopped = _pump(process.stdin, lines, take, stop)
        if not stopped:  # all output is read; large libraries take time to exit
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LEAVE_S)
    finally:
        end(process)
        for reader in readers:
            reader.join(GRACE_S)
    return Ended(process.returncode, tuple(errors), stopped)


def _pump(stdin: IO[str], lines: queue.SimpleQueue[str | None], take: Callable[[str], None], stop: Stop) -> bool:
    """Read until there are no more lines; returns whether it was stopped."""
    beaten = time.monotonic()
    while True:
        if stop():
            return True
        if time.monotonic() - beaten >= BEAT_S:
            beaten = time.monotonic()
            with contextlib.suppress(OSError):
                stdin.write("\n")
                stdin.flush()
        try:
            line = lines.get(timeout=_POLL_S)
        except queue.Empty:
            continue
        if line is None:
            return False
        if line.endswith("\n"):
            take(line)


def end(process: subprocess.Popen[str]) -> None:
    """Close its input, which makes it exit; otherwise kill it."""
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _lines(source: IO[str], lines: queue.SimpleQueue[str | None]) -> None:
    for line in source:
        lines.put(line)
    lines.put(None)


def _errors(source: IO[str], errors: deque[str]) -> None:
    errors.extend(line.rstrip() for line in source if line.strip())
