"""What a training shows of itself."""

import pytest
from rich.console import Console

from nas.core import metrics as progress
from nas.terminal.progress import Bar
from supernet.train.step import StepReport


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    return now


def report(step, names=("largest", "smallest")):
    return StepReport(step, (2.0, 3.0, 4.0), names, 1.0, 0.1, tokens=100, skipped=False)


def test_evaluations_and_checkpoints_are_no_training_time(tmp_path, clock):
    with progress.Files(tmp_path, 0, log_every=2) as files:
        for step in range(4):
            clock[0] += 5
            files.on_step(report(step))
            clock[0] += 70
            files.on_evaluation(step + 1, {"loss": 1.0})
            clock[0] += 30
            files.on_checkpoint(tmp_path)
    rows = [row.text.strip() for row in progress.read_rows(tmp_path / "metrics.csv") if "tokens_per_s" in row.text]
    assert rows == ["2,train/tokens_per_s,20.0", "4,train/tokens_per_s,20.0"]


def test_losses_are_named_after_what_was_trained():
    assert list(progress.step_metrics(report(0)))[:2] == ["train/loss_largest", "train/loss_smallest"]
    assert list(progress.step_metrics(report(0, ("sample",))))[:2] == ["train/loss_sample", "train/grad_norm"]


def test_the_bar_shows_the_same_of_steps_and_of_rows(tmp_path, clock):
    bars = [Bar(Console(quiet=True), 10, 0) for _ in range(2)]
    with progress.Files(tmp_path, 0, log_every=1) as files:
        for observer in (files, bars[0]):
            observer.clock.since -= 50
            observer.on_step(report(0))
    bars[1].on_rows(progress.read_rows(tmp_path / "metrics.csv"))
    shown = [bar.bar.progress.tasks[0].fields["figures"] for bar in bars]
    assert shown == ["loss 2.000 (largest) / 3.000 (smallest), 2 tokens/s"] * 2
