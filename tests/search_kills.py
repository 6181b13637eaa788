"""Kill searches and resume them: nothing finished may be lost, and a local one has to visit what it would have.

    python -m tests.search_kills --local 10 --ray 3

Each kill is a SIGKILL to the process of `nas search`: at a random moment, in the middle of a journal's line, between
a line and its row of the table, or between two trials. A search is killed three times, then goes on to its end.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from optuna.trial import TrialState

from nas.cli import main as nas
from nas.core.evaluated import read_evaluated
from nas.core.evaluation import prepare
from nas.core.run_dir import RunDir
from tests.nas.runs import options, write_inputs
from tests.nas.stages.search.made_up import write_profile

TRIALS = 60
OPTIONS = ["--device", "one", "--trials", str(TRIALS), "--limit", "30", "--batch-size", "1"]
MOMENTS = (None, "line", "table", None, "line", "trial")
A_SEARCH = 3
"""Kills of one search."""


def command(*more: str, moment: str | None = None, at: int = 0) -> subprocess.Popen[bytes]:
    """`nas search` in a process of its own, which dies by itself where a moment is given."""
    module = "tests.nas.stages.search.killed" if moment else "nas"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "KILL": f"{moment}/{at}"}
    return subprocess.Popen([sys.executable, "-m", module, "search", *more], env=environment,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def finished(run: str) -> dict[int, str]:
    """The architectures of finished trials by number, as the journal has them."""
    journal = Path("runs", run, "study.journal")
    if not journal.is_file():
        return {}
    copy = Path("runs", f"{run}-copy")  # reading cuts a torn line off, which is the next process's to do
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(Path("runs", run), copy, ignore=shutil.ignore_patterns("*.lock"))
    folder = RunDir.open(copy.name)
    trials = read_evaluated(folder).trials
    running = [trial.number for trial in trials if trial.state == TrialState.RUNNING]
    if running:
        raise AssertionError(f"left RUNNING: {running}")
    return {trial.number: str(sorted(trial.params.items())) for trial in trials}


def rows(run: str) -> list[list[str]]:
    with Path("runs", run, "trials.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def kill(run: str, more: list[str], moment: str | None, rng: random.Random) -> str:
    """Start or go on with a search and kill it; where."""
    had = len(finished(run))
    left = TRIALS - had
    if moment:
        process = command(run, *more, moment=moment, at=rng.randrange(1, max(left - 2, 2)))
    else:
        process, wanted = command(run, *more), had + rng.randrange(1, max(left - 5, 2))
        journal, start = Path("runs", run, "study.journal"), time.monotonic()
        while process.poll() is None and (not journal.is_file() or journal.read_bytes().count(b"\n") < wanted):
            time.sleep(0.001)
            if time.monotonic() - start > 300:
                raise AssertionError("no trial in five minutes")
        process.kill()
    process.wait()
    if process.returncode != -signal.SIGKILL:
        raise AssertionError(f"ended with {process.returncode} before it was killed")
    return f"{moment or 'a random moment'} after {len(finished(run))} trials"


def killed_search(run: str, more: list[str], kills: int, rng: random.Random, moments: list[str | None]) -> str:
    """Kill a search so many times, let it end, and compare it with what it had at every kill; where it was killed."""
    shutil.copytree("runs/a", Path("runs", run), ignore=shutil.ignore_patterns("*.lock"))
    where, before = [], {}
    for i in range(kills):
        where.append(kill(run, [*more, *(OPTIONS if i == 0 else [])], moments[i], rng))
        now = finished(run)
        if any(now.get(number) != arch for number, arch in before.items()):
            raise AssertionError("a finished trial is lost")
        before = now
    if command(run, *more).wait() != 0:
        raise AssertionError("it does not go on")
    last = finished(run)
    if any(last.get(number) != arch for number, arch in before.items()) or len(rows(run)) != TRIALS + 1:
        raise AssertionError(f"{len(last)} of {TRIALS} trials, or a finished one is lost")
    return "; ".join(where)


def prepared(folder: Path) -> None:
    """A trained run `a`, and one `straight` that was searched without a kill."""
    os.chdir(folder)
    write_inputs(folder)
    if nas(options("a")) != 0:
        raise AssertionError("the run could not be trained")
    write_profile(prepare(RunDir.open("a")).space, "one")
    shutil.copytree("runs/a", "runs/straight")
    if command("straight", *OPTIONS).wait() != 0:
        raise AssertionError("the search without a kill failed")


def check(local: int, on_ray: int, seed: int) -> None:
    """Kill searches so many times. Raises AssertionError where something is lost."""
    rng, before = random.Random(seed), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        try:
            prepared(Path(folder))
            for number, first in enumerate(range(0, local, A_SEARCH)):
                kills = min(A_SEARCH, local - first)
                moments = [MOMENTS[(first + i) % len(MOMENTS)] for i in range(kills)]
                where = killed_search(f"local-{number}", [], kills, rng, moments)
                if rows(f"local-{number}") != rows("straight"):
                    raise AssertionError("it did not visit the architectures of an undisturbed search")
                print(f"local, killed at {where}: trials.csv equal to the undisturbed search's", flush=True)
            if on_ray:
                where = killed_search("ray", ["--ray", "local"], on_ray, rng, [None] * on_ray)
                print(f"ray, killed at {where}: every finished trial kept, none left RUNNING, all {TRIALS} done")
        finally:
            os.chdir(before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--local", type=int, default=10)
    parser.add_argument("--ray", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    check(asked.local, asked.ray, asked.seed)
    print(f"{asked.local} kills of local searches, {asked.ray} of searches on Ray: nothing lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
