"""Kill trainings and resume them: every one has to end with the bits of one that was never disturbed.

Each kill starts a run of its own and sends it SIGKILL, at a random moment or in the middle of writing something;
the run is resumed by `nas train --resume`, sometimes killed again, and compared with the undisturbed run. Processes
are forked from this one after its imports, which takes less time than starting Python anew.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorboardX  # noqa: F401 - loaded before the forks
import torch

import nas.stages.train.run  # noqa: F401
import nas.stages.train.view  # noqa: F401
from nas import cli
from nas.core import metrics as progress
from nas.stages.train import training as train
from supernet.train import checkpoint
from supernet.train.checkpoint import newest_step
from tests.nas.runs import options, write_inputs
from tests.supernet.toys import supernet_trainer

STEPS = 40
SETTINGS = {"steps": STEPS, "checkpoint_every": 2, "keep": 2, "evaluate_every": 10, "evaluate_limit": 2, "log_every": 1,
            "dropout": 0.2, "layerdrop": 0.3, "accumulate": 2, "ema": 0.9, "batch_size": 2, "patience": 0,
            "order_at": 0.3}
PLACES = ("half of the tensors", "before the JSON", "half of the JSON", "before the rename", "after the rename",
          "while deleting an old one", "half of a metrics row", "half of the weights")
"""Where a process can die while it writes; the first six are in a checkpoint's."""
MOST_S = 300
"""After so long a process is taken to hang."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def half(path: Path, content: bytes) -> None:
    """Write half of a file and die."""
    with path.open("ab") as file:
        file.write(content[: len(content) // 2])
        file.flush()
    die()


def lay_trap(place: str, at: int) -> None:
    """Change this process so that it dies in that place when it writes the first checkpoint at or after a step."""
    due = [False]
    honest_save, honest_tensors, honest_write, honest_rename, honest_rmtree, honest_row = (
        checkpoint.Checkpoints.save, checkpoint.save_tensors, Path.write_text, Path.rename, shutil.rmtree,
        progress.Files._write)

    def save(self: Any, trainer: Any) -> Path:
        due[0] = trainer.progress.step >= at
        return honest_save(self, trainer)

    def save_tensors(tensors: Any, path: Path) -> None:
        honest_tensors(tensors, path)
        if due[0] and place == "half of the tensors":
            content = path.read_bytes()
            path.unlink()
            half(path, content)
        if due[0] and place == "before the JSON":
            die()

    def save_weights(tensors: Any, path: Path) -> None:
        honest_tensors(tensors, path)
        content = path.read_bytes()
        path.unlink()
        half(path, content)

    def write_text(self: Path, text: str, *rest: Any, **more: Any) -> int:
        if due[0] and place == "half of the JSON" and self.name == "state.json":
            half(self, text.encode())
        return honest_write(self, text, *rest, **more)

    def rename(self: Path, target: Path) -> Path:
        finishes = due[0] and target.name.startswith("step-")
        if finishes and place == "before the rename":
            die()
        done = honest_rename(self, target)
        if finishes and place == "after the rename":
            die()
        return done

    def rmtree(path: Any, *rest: Any, **more: Any) -> None:
        if due[0] and place == "while deleting an old one" and Path(path).name.startswith(".step-"):
            (Path(path) / "state.json").unlink(missing_ok=True)
            die()
        honest_rmtree(path, *rest, **more)

    def row(self: Any, step: int, metrics: Any) -> None:
        if step >= at and place == "half of a metrics row":
            half(self.path, "".join(f"{step},{name},{value!r}\n" for name, value in metrics.items()).encode())
        honest_row(self, step, metrics)

    checkpoint.Checkpoints.save, checkpoint.save_tensors = save, save_tensors  # type: ignore[method-assign]
    Path.write_text, Path.rename, shutil.rmtree = write_text, rename, rmtree  # type: ignore[assignment,method-assign]
    progress.Files._write = row  # type: ignore[method-assign]
    if place == "half of the weights":
        train.save_tensors = save_weights  # type: ignore[attr-defined]


def forked(argv: list[str], prepare: Callable[[], None] = lambda: None) -> int:
    """The id of a new process that runs `nas` with these arguments, its output in `output.txt`."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    signal.alarm(MOST_S)
    try:
        output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        prepare()
        code = cli.main(argv)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def ended(pid: int) -> int:
    """Wait for a process; its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def running(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


@dataclass
class Kill:
    """One run that was killed at least once.

    Args:
        steps: how far it had come at each kill.
        places: where it was writing, None for a random moment.
    """

    steps: list[int] = field(default_factory=list)
    places: list[str | None] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = [f"after step {step}, {f'in a write ({place})' if place else 'at a random moment'}"
                for step, place in zip(self.steps, self.places)]
        result = "equal" if not self.differences else f"DIFFERENT: {', '.join(self.differences)}"
        return f"killed {'; again '.join(told)}: {result}"


class Trial:
    """A folder with an undisturbed run, and what is done to others beside it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        os.chdir(folder)
        write_inputs(folder)
        self.duration_s = self._undisturbed()
        self.wanted = learned(folder / "runs/straight")

    def _undisturbed(self) -> float:
        """Train without a kill; how long the training itself takes."""
        pid = forked(options("straight", **SETTINGS))
        start = self._training_began("straight", pid)
        if ended(pid) != 0:
            raise RuntimeError(f"the undisturbed run failed: {Path('output.txt').read_text('utf-8')}")
        return time.monotonic() - start

    def _training_began(self, name: str, pid: int) -> float:
        while running(pid) and not Path("runs", name, "metrics.csv").exists():
            time.sleep(0.001)
        return time.monotonic()

    def kill(self, number: int, place: str | None) -> Kill:
        """Start a run, kill it in that place or at a random moment, perhaps again, let it end, and compare."""
        name, found = f"killed-{number}", Kill()
        for _ in range(20):  # a random moment may come after the end
            shutil.rmtree(Path("runs", name), ignore_errors=True)
            self._disturbed(name, options(name, **SETTINGS), place, found)
            if found.places:
                break
        else:
            raise RuntimeError(f"no run could be killed {place or 'at a random moment'}")
        while self.rng.random() < 1 / 3:
            self._disturbed(name, ["train", "--resume", name], self.rng.choice((None, *PLACES)), found)
        code = ended(forked(["train", "--resume", name]))
        if code != 0:
            found.differences.append(f"resuming ended with {code}: {Path('output.txt').read_text('utf-8')[-300:]}")
        else:
            found.differences += differences(self.wanted, learned(Path("runs", name)))
        shutil.rmtree(Path("runs", name))
        return found

    def _disturbed(self, name: str, argv: list[str], place: str | None, found: Kill) -> None:
        """One process that is killed, unless it comes to its end before."""
        left = STEPS - newest_step(Path("runs", name, "checkpoints"))
        if place is not None:
            at = STEPS - self.rng.randrange(max(left, 1))
            pid = forked(argv, lambda: lay_trap(place, at))
        else:
            pid = forked(argv)
            self._training_began(name, pid)
            time.sleep(self.rng.random() * self.duration_s * left / STEPS)
            os.kill(pid, signal.SIGKILL)
        code = ended(pid)
        if code == -signal.SIGKILL:
            found.steps.append(last_step(Path("runs", name)))
            found.places.append(place)
        elif code != 0:
            raise RuntimeError(f"a run failed with {code}: {Path('output.txt').read_text('utf-8')}")


def last_step(run: Path) -> int:
    """The last step of which a run wrote something down."""
    rows = list(progress.read_rows(run / "metrics.csv"))
    return max([newest_step(run / "checkpoints"), *(row.step for row in rows)])


def learned(run: Path) -> dict[str, bytes]:
    """Everything that has to be equal: weights, the newest checkpoint, and the metrics but for their speed."""
    newest = checkpoint.Checkpoints(run / "checkpoints", 1).all()[-1]
    rows = sorted(row.text for row in progress.read_rows(run / "metrics.csv") if "tokens_per_s" not in row.text)
    return {"supernet.safetensors": (run / "supernet.safetensors").read_bytes(),
            f"{newest.name}/state.safetensors": (newest / "state.safetensors").read_bytes(),
            f"{newest.name}/state.json": (newest / "state.json").read_bytes(),
            "metrics.csv": "".join(rows).encode()}


def differences(wanted: dict[str, bytes], found: dict[str, bytes]) -> list[str]:
    """The names of what is not equal."""
    return [name for name in sorted({*wanted, *found}) if wanted.get(name) != found.get(name)]


def check(kills: int, seed: int, say: Callable[[str], None] = lambda text: None) -> list[Kill]:
    """Kill so many runs, every second one in the middle of a write, in each place in turn."""
    torch.set_num_threads(1)  # a fork takes no threads along
    supernet_trainer().step()  # loads what the first step of each process would
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        try:
            trial, found = Trial(Path(folder), seed), []
            for i in range(kills):
                found.append(trial.kill(i, PLACES[i // 2 % len(PLACES)] if i % 2 else None))
                say(f"{i + 1}/{kills} {found[-1]}")
        finally:
            os.chdir(before)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    found = check(asked.kills, asked.seed, lambda text: print(text, flush=True))
    wrong = sum(bool(each.differences) for each in found)
    places = [place for each in found for place in each.places]
    writes = sum(place in PLACES[:6] for place in places), sum(place in PLACES[6:] for place in places)
    print(f"{len(found)} runs, {len(places)} kills: {writes[0]} in the middle of a checkpoint's write, {writes[1]} of "
          f"another's, {places.count(None)} at a random moment; {len(found) - wrong} runs equal to the undisturbed one "
          f"bit by bit, {wrong} different")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
