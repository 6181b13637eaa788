"""A run that is looked at: before, while and after it is searched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nas.core.run_dir import RunDir
from nas.stages.watch.run import run_status
from nas.stages.watch.view import FRONT, HEIGHT, POINT, WIDTH, plot
from tests.nas.runs import interrupted, nas, options, refused


def test_a_plot_marks_the_front_and_nothing_else():
    lines = plot([(0.0, 0.0), (1.0, 1.0), (0.5, 0.75)], [False, False]).plain.splitlines()
    assert len(lines) == HEIGHT + 1 and all(len(line) == WIDTH + 1 for line in lines)
    assert lines[-2][1] == FRONT and lines[0][WIDTH] == POINT
    assert sum(line.count(FRONT) for line in lines) == 1 and sum(line.count(POINT) for line in lines) == 2
    better = plot([(0.0, 0.0), (1.0, 1.0)], [False, True]).plain
    assert better.count(FRONT) == 2
    assert plot([(3.0, 3.0)], [False, False]).plain.count(FRONT) == 1


def test_a_training_that_logged_nothing_yet_is_as_far_as_its_checkpoint(here: Path, capsys: Any,
                                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    argv = options("b", log_every=50, evaluate_every=50)
    assert interrupted(capsys, monkeypatch, argv, at=3)[0] == 130
    code, out, _ = nas(capsys, "watch", "b", "--once")
    assert code == 0 and "3 of 6 steps" in out and "no losses logged yet" in out and "nothing was" not in out


def test_a_run_is_shown_as_it_stands(searchable: RunDir, capsys: Any) -> None:
    code, out, _ = nas(capsys, "watch", "a", "--once")
    assert code == 0 and "6 of 6 steps" in out and "search" not in out
    assert nas(capsys, "search", "a", "--device", "one", "--trials", "12", "--limit", "4")[0] == 0
    code, out, _ = nas(capsys, "watch", "a")
    assert code == 0 and "12 of 12 trials" in out and FRONT in out and "latency:one from" in out
    assert run_status(searchable).finished
    table = Path("runs/a/trials.csv")
    table.write_text(table.read_text("utf-8")[:-20], "utf-8")  # as a row is while it is written
    assert "of 12 trials" in nas(capsys, "watch", "a")[1] and not run_status(searchable).finished
    assert "is not a run" in refused(capsys, "watch", "nothing")
