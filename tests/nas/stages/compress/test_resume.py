"""A compression that was stopped goes on and ends with the same weights."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from nas.core.subnet import Subnet
from nas.terminal import progress
from supernet.pretrained import WEIGHTS
from tests.nas.runs import nas, refused

LIVELY = ["--set", "steps=5", "--set", "dropout=0.2", "--set", "ema=0.8", "--set", "checkpoint_every=2"]
WAYS = {"int8-qat": ["--int8", "--qat", *LIVELY],
        "pruned": ["--prune", "0.5", "--rewind", *LIVELY, "--set", "rounds=2", "--set", "rewind_step=2"]}


def stopped(capsys: Any, monkeypatch: pytest.MonkeyPatch, argv: list[str], at: int) -> tuple[int, str, str]:
    """Run a command that gets Ctrl-C after so many steps of its trainings."""
    honest, taken = progress.Bar.on_step, [0]

    def on_step(self: Any, report: Any) -> None:
        honest(self, report)
        taken[0] += 1
        if taken[0] == at:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(progress.Bar, "on_step", on_step)
        return nas(capsys, *argv)


@pytest.mark.parametrize("suffix", WAYS)
def test_stopped_and_resumed_is_the_same(subnet: Subnet, capsys: Any, monkeypatch: pytest.MonkeyPatch,
                                         suffix: str) -> None:
    whole = ["compress", "a/big", *WAYS[suffix], "--out", "whole"]
    assert nas(capsys, *whole)[::2] == (0, "")
    argv, out = ["compress", "a/big", *WAYS[suffix]], Path(f"runs/a/subnets/big-{suffix}")
    for at in (1, 3, 3) if suffix == "pruned" else (2,):  # of the steps that are left
        code, said, _ = stopped(capsys, monkeypatch, argv, at)
        assert code == 130 and "rerun the same command to resume" in said
        assert not out.exists()
    assert nas(capsys, *argv)[::2] == (0, "")
    assert (out / WEIGHTS).read_bytes() == (Path("whole") / WEIGHTS).read_bytes()
    assert Subnet.open(str(out)).facts.metrics == Subnet.open("whole").facts.metrics
    assert not list(Path("runs/a/compressing").iterdir())


def test_two_at_once_are_kept_apart(subnet: Subnet, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ["compress", "a/big", *WAYS["int8-qat"]]
    assert stopped(capsys, monkeypatch, argv, 1)[0] == 130
    import fcntl

    (work,) = Path("runs/a/compressing").iterdir()
    with (work / ".lock").open("a+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert "another process is using this compression" in refused(capsys, *argv)
    assert stopped(capsys, monkeypatch, [*argv, "--set", "lr=0.5"], 1)[0] == 130
    assert len(list(Path("runs/a/compressing").iterdir())) == 2, "other settings are another training"
    newest = sorted((work / "checkpoints").iterdir())[-1]
    (newest / "state.safetensors").write_bytes(b"")
    assert "delete its folder" in refused(capsys, *argv)


def test_rewinding_that_stops_early_comes_to_its_end(subnet: Subnet, capsys: Any,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nas.stages.compress.technique.evaluator", lambda *_: lambda trainer: {"loss": 1.0})
    settings = {"steps": 6, "rewind_step": 4, "rounds": 1, "patience": 1, "evaluate_every": 1}
    code, _, err = nas(capsys, "compress", "a/big", "--prune", "0.5", "--rewind",
                       *(f"--set={key}={value}" for key, value in settings.items()))
    assert (code, err) == (0, "")
