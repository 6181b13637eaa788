"""Send SIGTERM to commands at random moments: they end with 130 or 0, say no traceback, leave nothing, and resume.

    python -m tests.stops --stops 3

Each command is stopped so many times, then called to its end. What preempted jobs of a cluster get is SIGTERM, too.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nas.cli import main as nas
from nas.core.evaluation import prepare
from nas.core.run_dir import RunDir
from tests.nas.runs import options, write_inputs
from tests.nas.stages.search.made_up import write_profile
from tests.nas.subnets import write_extracted

ROOT = Path(__file__).parents[1]
COMMANDS = {
    "train": [*options("new", steps=60)],
    "profile": ["profile", "cpu", "--space", "space.yaml", "--budget", "10s"],
    "search": ["search", "a", "--device", "one", "--trials", "60", "--limit", "30", "--batch-size", "1"],
    "search on Ray": ["search", "ray", "--device", "one", "--trials", "60", "--limit", "30", "--ray", "local"],
    "rank": ["rank", "a", "-n", "6", "--steps", "20"],
    "retrain": ["retrain", "SUBNET", "--set", "steps=60"],
    "compress": ["compress", "SUBNET", "--int8", "--qat", "--set", "steps=40"],
    "export": ["export", "SUBNET", "--format", "onnx"],
    "measure": ["measure", "SUBNET", "--device", "one", "--budget", "10s"],
    "report": ["report", "a"],
}
STARTING_S = 1.0
"""Python itself may take so long to start, before a program can handle signals."""
ENDED = 120.0
"""Seconds within which a command that was asked to stop has to."""


def start(argv: list[str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(Path("tmp").absolute())}
    return subprocess.Popen([sys.executable, "-m", "nas", *argv], env=environment, text=True, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE)


def again(name: str, argv: list[str]) -> list[str]:
    """What resumes a command."""
    return ["train", "--resume", "new"] if name == "train" and Path("runs/new/config.yaml").is_file() else argv


def leftovers() -> list[str]:
    """Unfinished files in the runs, and temporary folders of ours."""
    unfinished = [str(path) for path in Path("runs").rglob(".*.*-*-*")]
    return unfinished + [str(path) for path in Path("tmp").iterdir() if path.name.startswith(("tmp", "nas-"))]


def stop(name: str, argv: list[str], usual_s: float, rng: random.Random) -> str:
    """Start a command and stop it; when. Raises AssertionError where it does not end as it has to."""
    process, after = start(again(name, argv)), rng.uniform(0.0, usual_s)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=ENDED)
    allowed = (0, 130, -signal.SIGTERM) if after < STARTING_S else (0, 130)
    if process.returncode not in allowed or "Traceback" in errors or "internal error" in errors:
        raise AssertionError(f"{name}, stopped after {after:.1f} s, ended with {process.returncode}: {errors[-2000:]}")
    if leftovers():
        raise AssertionError(f"{name}, stopped after {after:.1f} s, left {leftovers()}")
    return f"{after:.1f} s ({process.returncode})"


def check(name: str, argv: list[str], stops: int, rng: random.Random) -> None:
    """Stop a command so many times and call it to its end. The first call, in a copy, tells how long it takes."""
    shutil.copytree("runs", "before")
    begun = time.monotonic()
    if (process := start(argv)).wait() != 0:
        raise AssertionError(f"{name} fails by itself: {process.communicate()[1][-2000:]}")
    usual_s = time.monotonic() - begun
    shutil.rmtree("runs")
    shutil.move("before", "runs")
    when = [stop(name, argv, usual_s, rng) for _ in range(stops)]
    process = start(again(name, argv))
    _, errors = process.communicate()
    if process.returncode != 0 or leftovers():
        raise AssertionError(f"{name} does not resume ({process.returncode}), or left {leftovers()}: {errors[-2000:]}")
    print(f"{name}, which takes {usual_s:.1f} s: stopped after {', '.join(when)}; resumed, nothing left", flush=True)


def prepared(folder: Path) -> dict[str, list[str]]:
    """A trained run with a profile, a subnet and a copy for Ray; the commands on them."""
    os.chdir(folder)
    Path("tmp").mkdir()
    write_inputs(folder)
    if nas(options("a")) != 0:
        raise AssertionError("the run could not be trained")
    write_profile(prepare(RunDir.open("a")).space, "one")
    shutil.copytree("runs/a", "runs/ray")
    subnet = str(write_extracted("a").path)
    return {name: [subnet if word == "SUBNET" else word for word in argv] for name, argv in COMMANDS.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stops", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=[*COMMANDS], default=[*COMMANDS])
    asked = parser.parse_args()
    rng, before = random.Random(asked.seed), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        try:
            commands = prepared(Path(folder))
            for name in asked.only:
                check(name, commands[name], asked.stops, rng)
        finally:
            os.chdir(before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
