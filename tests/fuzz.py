"""Damage every file that the program reads, and run the commands that read it: `python -m tests.fuzz --cases 5000`.

A command may refuse a damaged file in a sentence, or do without it. What must not happen: an exception that no command
handles, a command that does not end, a command that only reads and changes a file. Cases are numbered and drawn from
the seed: `--case K` runs one again and shows its traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import typer
import typer.main

import nas.stages.report.run
from hardware_profiles import protocol
from nas import cli
from nas.core.timing.session import Rounds
from nas.stages.search.search import Search
from supernet.train.step import Trainer
from tests.fuzzing.mutations import mutated
from tests.fuzzing.world import LOGS, READERS, Command, build, made_up_machine

LIMIT_S = 10
"""Seconds of computing after which a command counts as one that does not end; most take a tenth of one."""
WAITING_S = 120
"""Seconds on the clock for the same: on a busy machine a command waits for its turn."""
ENDING_S = 10
"""Seconds on the clock after which a thread that outlived its command counts as one that does not end."""
CODES = (0, 1, 2)
"""Exit codes that are documented; nothing here stops a command by Ctrl-C."""
LONGEST = 1500
"""Characters of a line on stderr: a sentence that quotes a whole file helps nobody."""
KINDS = ("internal errors", "hangs", "modified", "left running", "long messages", "undocumented codes")
"""Of faults; left running: threads that outlive their command, and may write when it has ended."""
PACKAGES = ("hardware_profiles", "nas", "search_spaces", "supernet")
Signature = tuple[int, int, int]
_COMMANDS = functools.lru_cache(typer.main.get_command)
"""Typer builds all commands for every call, which takes as long as many of them."""


class HangError(BaseException):
    """A command took longer than it may."""


class EndedError(BaseException):
    """Somebody wants to know what was found so far."""


class WorkingError(BaseException):
    """A command got past its inputs and began to work; what would follow may rightly take hours."""


@dataclass
class Summary:
    """What became of all cases."""

    cases: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    faults: dict[str, Counter[str]] = field(default_factory=lambda: {
        name: Counter() for name in KINDS})
    first: dict[str, int] = field(default_factory=dict)
    """The first case of each fault."""

    @property
    def clean(self) -> bool:
        """Whether nothing went wrong."""
        return not any(self.faults.values())

    def add(self, kind: str, what: str, case: int) -> None:
        """One more fault."""
        self.faults[kind][what] += 1
        self.first.setdefault(f"{kind}: {what}", case)

    def lines(self) -> Iterator[str]:
        """Every kind of fault, then all in one line."""
        for kind, found in self.faults.items():
            for what, count in found.most_common():
                yield f"{kind}: {count} x {what} (case {self.first[f'{kind}: {what}']})"
        counts = ", ".join(f"{sum(found.values())} {kind}" for kind, found in self.faults.items())
        done = ", ".join(f"{count} ended with {code}" for code, count in sorted(self.codes.items()))
        yield f"fuzz: {self.cases} cases, {counts} ({done})"


class Fuzz:
    """A run in the working directory, a copy of it, and cases on it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.seed, self.work, self.copy = seed, folder / "work", folder / "copy"
        self.work.mkdir()
        os.chdir(self.work)
        with made_up_machine(), _quiet():
            self.subnet = build(self.work)
        shutil.copytree(self.work, self.copy)
        self.known = _signatures(self.work)

    def case(self, number: int, summary: Summary, show: bool = False) -> None:
        """Damage one file, run one command, look at what happened, and put everything back."""
        rng = random.Random(f"{self.seed} {number}")  # noqa: S311
        pattern, kind, commands = rng.choice(READERS)
        path = rng.choice(sorted(Path().glob(pattern.replace("SUBNET", self.subnet))))
        name, data = mutated(path.read_bytes(), kind, rng)
        command = rng.choice(commands)
        argv = [each.replace("SUBNET", self.subnet) for each in command.argv]
        if show:
            print(f"case {number}: {name} of {path}: nas {' '.join(argv)}")
        path.write_bytes(data)
        if show:
            print(f"the damaged file is {self._kept(path)}")
        self.known[str(path)] = _signature(path)
        before = set(threading.enumerate())
        outcome = _run(argv, pictures=rng.random() < 0.05)
        summary.cases += 1
        for thread in _left_running(before):
            summary.add("left running", f"{type(thread).__name__} [{command.argv[0]} of {pattern}]", number)
        self._judge(outcome, command, f"{command.argv[0]} of {pattern}", number, summary)
        if show:
            print(outcome.shown)
        self._restore(path)

    def undamaged(self) -> dict[str, str]:
        """Every command that does not end well on the run as it is, and what it says."""
        found = {}
        for command in dict.fromkeys(each for _, _, commands in READERS for each in commands):
            outcome = _run([each.replace("SUBNET", self.subnet) for each in command.argv], pictures=True)
            if outcome.failed or outcome.code not in (0, 1, None):  # 1: the check of a profile of made-up times
                found[" ".join(command.argv)] = outcome.shown
            self._restore(None)
        return found

    def _kept(self, path: Path) -> str:
        """A copy of a damaged file, to look at."""
        handle, name = tempfile.mkstemp(suffix=f"-{path.name}")
        os.close(handle)
        return shutil.copy(path, name)

    def _judge(self, found: Outcome, command: Command, where: str, number: int, summary: Summary) -> None:
        if found.failed:
            summary.add("hangs" if found.hung else "internal errors", f"{found.failed} [{where}]", number)
        elif found.code is not None:
            summary.codes[found.code] += 1
            if found.code not in CODES:
                summary.add("undocumented codes", f"{found.code} [{where}]", number)
        longest = max(map(len, found.stderr.splitlines()), default=0)
        if longest > LONGEST:
            summary.add("long messages", f"{longest:,} characters [{where}]", number)
        if command.writes is not None:
            for name in self._changed():
                if not name.startswith(command.writes) and Path(name).name not in LOGS:
                    summary.add("modified", f"{name} [{where}]", number)

    def _changed(self) -> list[str]:
        now = _signatures(self.work)
        return sorted(name for name in {*now, *self.known} if now.get(name) != self.known.get(name))

    def _restore(self, damaged: Path | None) -> None:
        """Put back what a case changed, and delete what it made."""
        for name in {*([str(damaged)] if damaged else []), *self._changed()}:
            if (self.copy / name).is_file():
                Path(name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.copy / name, name)
                self.known[name] = _signature(Path(name))
            else:
                Path(name).unlink(missing_ok=True)
                self.known.pop(name, None)
        for folder in ("runs/c", "again", "fitted"):
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Outcome:
    """How a command ended: a code, or what it failed with; neither where it began to work."""

    code: int | None
    stderr: str
    failed: str = ""
    shown: str = ""
    hung: bool = False


def _run(argv: list[str], pictures: bool) -> Outcome:
    err = io.StringIO()
    once = mock.patch("typer.main.get_command", _COMMANDS)
    with _quiet(err), made_up_machine(), _no_long_work(), _time_limit(), once:
        pictured = contextlib.nullcontext() if pictures else mock.patch.object(
            nas.stages.report.run, "write_front", lambda *_: [])  # reads no file, and takes most of a report's time
        try:
            with pictured:
                code = cli.main(argv)
        except WorkingError:
            return Outcome(None, err.getvalue(), shown="began to work")
        except (HangError, SystemExit, Exception) as error:
            hung = isinstance(error, HangError)
            return Outcome(None, err.getvalue(), _place(error), traceback.format_exc(), hung)
    return Outcome(code, err.getvalue(), shown=f"{err.getvalue()}exit code {code}")


def _left_running(before: set[threading.Thread]) -> list[threading.Thread]:
    """The threads that a command started and did not end; one that is ending, such as a bar's, gets its time."""
    found = set(threading.enumerate()) - before
    for thread in found:
        thread.join(ENDING_S)
    return [thread for thread in found if thread.is_alive()]


def _place(error: BaseException) -> str:
    """The exception and the last place of ours that it passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if any(f"/{name}/" in frame.filename for name in PACKAGES)
            and "/site-packages/" not in frame.filename and "/tests/" not in frame.filename]
    last = (ours or frames)[-1]
    parts = Path(last.filename).parts
    starts = [i for i, part in enumerate(parts) if part in PACKAGES] or [len(parts) - 1]
    return f"{type(error).__name__} at {'/'.join(parts[starts[-1]:])}:{last.lineno}"


@contextlib.contextmanager
def _no_long_work() -> Iterator[None]:
    """End commands that have read everything and would go on for as long as they were asked to."""
    with contextlib.ExitStack() as stack:
        for owner, name, most in ((Trainer, "step", 12), (Search, "propose", 8), (Rounds, "add", 40),
                                  (protocol, "_order", 40)):
            stack.enter_context(mock.patch.object(owner, name, _counted(getattr(owner, name), most)))
        yield


def _counted(function: Any, most: int) -> Any:
    calls = [0]

    def counted(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] > most:
            raise WorkingError
        return function(*given, **named)
    return counted


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise HangError

    clocks = ((signal.SIGPROF, signal.ITIMER_PROF, LIMIT_S), (signal.SIGALRM, signal.ITIMER_REAL, WAITING_S))
    before = {number: signal.signal(number, ring) for number, _, _ in clocks}
    for _, clock, seconds in clocks:
        signal.setitimer(clock, seconds)
    try:
        yield
    finally:
        for number, clock, _ in clocks:
            signal.setitimer(clock, 0)
            signal.signal(number, before[number])


@contextlib.contextmanager
def _quiet(err: io.StringIO | None = None) -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err or io.StringIO()), \
            warnings.catch_warnings(), mock.patch.dict(os.environ, {"NAS_DEBUG": "1", "COLUMNS": "160"}):
        warnings.simplefilter("ignore")
        yield


def _signatures(folder: Path) -> dict[str, Signature]:
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            found[str(path.relative_to(folder))] = _signature(path)
    return found


def _signature(path: Path) -> Signature:
    """Changes whenever anything is written to a file, or another is put in its place."""
    stat = path.stat()
    return stat.st_ino, stat.st_size, stat.st_ctime_ns


@contextlib.contextmanager
def fuzzing(seed: int = 0) -> Iterator[Fuzz]:
    """The run, in a temporary folder that is the working directory for the time."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        try:
            yield Fuzz(Path(folder), seed)
        finally:
            os.chdir(before)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough: what was found is being printed
    raise EndedError


def main() -> int:
    """Run cases and print what was found; 1 where that is anything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=1000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="what they are drawn from")
    parser.add_argument("--case", type=int, help="run this one alone and show its traceback")
    given = parser.parse_args()
    summary = Summary()
    signal.signal(signal.SIGTERM, _end)  # Ctrl-C ends a command; this ends them all
    with fuzzing(given.seed) as fuzz, contextlib.suppress(EndedError):  # what was found until then counts
        for number in range(given.cases) if given.case is None else [given.case]:
            fuzz.case(number, summary, show=given.case is not None)
            if number % 500 == 499:
                print(f"{number + 1} cases", file=sys.stderr, flush=True)
    print("\n".join(summary.lines()))
    return 0 if summary.clean else 1


if __name__ == "__main__":
    sys.exit(main())
