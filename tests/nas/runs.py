"""A run small enough for tests: a space and a text in the working directory, and the command line on them."""

from __future__ import annotations

import csv
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nas.core import metrics as progress

SPACE = """
{schema_version: 1, name: toy, family: lm, vocab_size: 60, context: 8, width: [8, 12],
 embedding: {lookup: {rank: [4, full]}}, head: {tied: {}},
 decoder: {slots: 2, depth: {keep: first, layers: [1, 2]}, layers: {plain: {
   mixer: {attention: {n_heads: [1, 2], head_dim: 4}}, ffn: {ffn: {inner: [1x, 2x]}}}}}}
"""
WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "seven", "wizards", "brew")
LIVELY = {"dropout": 0.2, "layerdrop": 0.3, "accumulate": 2, "ema": 0.9, "steps": 9}
"""Settings that make every kind of chance and state matter."""
SETTINGS = {"steps": 6, "batch_size": 2, "warmup": 0, "lr": 1e-2, "evaluate_every": 2, "evaluate_limit": 4,
            "checkpoint_every": 2, "log_every": 1, "strategy": "sandwich", "n_random": 1, "layerdrop": 0.2,
            "patience": 9, "device": "cpu"}


def write_inputs(folder: Path) -> None:
    """`space.yaml` and `text.txt`."""
    lines = (" ".join(WORDS[(i * 7 + j * (i % 5 + 1)) % len(WORDS)] for j in range(i % 6 + 2)) for i in range(80))
    (folder / "space.yaml").write_text(SPACE, "utf-8")
    (folder / "text.txt").write_text("".join(f"{line} .\n" for line in lines), "utf-8")


def options(run: str, **settings: Any) -> list[str]:
    """The arguments of `nas` that start a run."""
    sets = [f"--set={key}={value}" for key, value in {**SETTINGS, **settings}.items()]
    return ["train", "--space", "space.yaml", "--task", "lm", "--data", "train=text.txt", "--data", "vocab_size=60",
            "--run", run, "--no-check", *sets]


def nas(capsys: Any, *argv: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    from nas import cli

    capsys.readouterr()
    code = cli.main(list(argv))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys: Any, *argv: str) -> str:
    """What a command says that has to refuse its input: sentences on stderr, no traceback."""
    code, _, err = nas(capsys, *argv)
    assert code == 2, err
    assert err and all(line.startswith("nas: ") for line in err.splitlines()), err
    return err


@contextmanager
def full_disk(room: int = 64) -> Iterator[None]:
    """No file of this process grows beyond so many bytes: to whoever writes one, the system says no."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def state(run: str) -> list[Any]:
    """The bytes of everything that was learned."""
    newest = sorted(Path("runs", run, "checkpoints").iterdir())[-1]
    return [Path("runs", run, "supernet.safetensors").read_bytes(), (newest / "state.safetensors").read_bytes(),
            (newest / "state.json").read_text("utf-8")]


def started(capsys, run="a", **settings):
    code, out, err = nas(capsys, *options(run, **settings))
    assert (code, err) == (0, "")
    return out


def metrics(run):
    with Path("runs", run, "metrics.csv").open(encoding="utf-8") as file:
        return [(int(row["step"]), row["metric"], float(row["value"])) for row in csv.DictReader(file)]


def interrupted(capsys, monkeypatch, argv, at, number=signal.SIGINT, times=1):
    """Run a command that gets a signal after so many steps."""
    honest = progress.Files.on_step

    def on_step(self, report):
        honest(self, report)
        if report.step + 1 == at:
            for _ in range(times):
                os.kill(os.getpid(), number)

    with monkeypatch.context() as patch:
        patch.setattr(progress.Files, "on_step", on_step)
        return nas(capsys, *argv)
