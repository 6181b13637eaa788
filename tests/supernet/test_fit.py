"""The training loop: when it evaluates, writes checkpoints, stops, and what it says when memory runs out."""

import pytest
import torch

from search_spaces import InputError
from supernet.train.checkpoint import Checkpoints
from supernet.train.fit import fit
from tests.supernet.test_training import spoil
from tests.supernet.toys import plain_trainer, same, snapshot


class Diary:
    """Writes down what it is told."""

    def __init__(self):
        self.told = []

    def on_step(self, report):
        self.told.append(("step", report.step))

    def on_evaluation(self, step, metrics):
        self.told.append(("evaluation", step))

    def on_checkpoint(self, path):
        self.told.append(("checkpoint", int(path.name.removeprefix("step-"))))

    def of(self, what):
        return [step for name, step in self.told if name == what]


def constant(loss):
    return lambda trainer: {"loss": loss}


def in_turn(*losses):
    """Evaluations that give these losses."""
    left = list(losses)
    return lambda trainer: {"loss": left.pop(0)}


def test_evaluations_come_before_their_checkpoints_and_both_when_due(tmp_path):
    trainer, diary = plain_trainer(steps=7, evaluate_every=3, checkpoint_every=2), Diary()
    assert fit(trainer, Checkpoints(tmp_path, 2), constant(1.0), diary)
    assert diary.of("step") == list(range(7))
    assert diary.of("evaluation") == [3, 6, 7]
    assert diary.of("checkpoint") == [2, 4, 6, 7]
    assert diary.told.index(("evaluation", 6)) < diary.told.index(("checkpoint", 6))


def test_without_an_interval_only_the_end_is_evaluated(tmp_path):
    diary = Diary()
    assert fit(plain_trainer(steps=4, evaluate_every=0, checkpoint_every=9), Checkpoints(tmp_path, 2), constant(1.0),
               diary)
    assert (diary.of("evaluation"), diary.of("checkpoint")) == ([4], [4])


def test_evaluations_leave_no_trace_in_the_weights(tmp_path):
    def evaluate(trainer):
        with trainer.averaged():
            logits = trainer.logits(trainer.model.arch, trainer.data.batch(0, 4, 1))
        assert not logits.requires_grad
        return {"loss": float(logits.mean())}

    often, once = (plain_trainer(evaluate_every=every, ema=0.9, dropout=0.2) for every in (1, 0))
    fit(often, Checkpoints(tmp_path / "often", 1), evaluate)
    fit(once, Checkpoints(tmp_path / "once", 1), evaluate)
    assert same(snapshot(often), snapshot(once))


def test_patience_ends_a_training_for_good(tmp_path):
    settings = {"steps": 20, "evaluate_every": 1, "patience": 2, "checkpoint_every": 100}
    trainer, checkpoints = plain_trainer(**settings), Checkpoints(tmp_path, 2)
    assert fit(trainer, checkpoints, in_turn(3.0, 2.0, 2.5, 1.5, 1.5, 1.6))
    progress = trainer.progress
    assert (progress.step, progress.best_step, progress.best_loss, progress.stopped_early) == (6, 4, 1.5, True)
    again = plain_trainer(**settings)
    assert checkpoints.load_newest(again)
    assert again.finished
    assert fit(again, checkpoints, in_turn())


def test_patience_keeps_the_best_evaluation(tmp_path):
    trainer = plain_trainer(steps=20, evaluate_every=1, patience=3, checkpoint_every=100)
    checkpoints = Checkpoints(tmp_path, 1)
    losses, weights = iter([3.0, 2.0, 2.5, 2.5, 2.5]), {}

    def evaluate(trainer):
        weights[trainer.progress.step] = snapshot(trainer)
        return {"loss": next(losses)}

    assert fit(trainer, checkpoints, evaluate)
    assert [path.name for path in checkpoints.all()] == ["step-00000002", "step-00000005"]
    checkpoints.load_best(trainer)
    assert same(snapshot(trainer), weights[2])


def test_without_patience_the_last_step_is_the_best(tmp_path):
    trainer, checkpoints = plain_trainer(steps=3, evaluate_every=1), Checkpoints(tmp_path, 1)
    assert fit(trainer, checkpoints, in_turn(1.0, 2.0, 3.0))
    checkpoints.load_best(trainer)
    assert (trainer.progress.step, len(checkpoints.all())) == (3, 1)


def test_memory_that_runs_out_in_an_evaluation_is_told(tmp_path):
    def evaluate(trainer):
        raise MemoryError

    with pytest.raises(InputError, match="evaluation after step 1: out of memory; lower batch_size"):
        fit(plain_trainer(evaluate_every=1), Checkpoints(tmp_path, 2), evaluate)


def test_without_patience_nothing_stops_early(tmp_path):
    trainer = plain_trainer(steps=5, evaluate_every=1)
    assert fit(trainer, Checkpoints(tmp_path, 2), in_turn(1.0, 2.0, 3.0, 4.0, 5.0))
    assert (trainer.progress.step, trainer.progress.stopped_early) == (5, False)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_never_the_best(tmp_path, bad):
    trainer = plain_trainer(steps=5, evaluate_every=1, patience=3)
    assert fit(trainer, Checkpoints(tmp_path, 2), in_turn(bad, 2.0, bad, 1.0, 3.0))
    assert (trainer.progress.best_loss, trainer.progress.best_step, trainer.progress.stopped_early) == (1.0, 4, False)


def test_a_stop_writes_a_checkpoint_first(tmp_path):
    trainer, diary = plain_trainer(steps=9), Diary()
    checkpoints = Checkpoints(tmp_path, 2)
    assert not fit(trainer, checkpoints, constant(1.0), diary, stop=lambda: len(diary.of("step")) == 3)
    assert (diary.of("step"), diary.of("checkpoint")) == ([0, 1, 2], [3])
    again = plain_trainer(steps=9)
    assert checkpoints.load_newest(again)
    assert same(snapshot(again), snapshot(trainer))


def test_a_stop_before_the_first_step_can_be_resumed(tmp_path):
    trainer, checkpoints = plain_trainer(steps=2), Checkpoints(tmp_path, 2)
    assert not fit(trainer, checkpoints, constant(1.0), stop=lambda: True)
    again = plain_trainer(steps=2)
    assert checkpoints.load_newest(again)
    assert fit(again, checkpoints, constant(1.0))


def test_a_training_that_breaks_leaves_its_last_checkpoint_intact(tmp_path):
    trainer = spoil(plain_trainer(steps=20, bad_steps=2, checkpoint_every=3, evaluate_every=0), range(4, 20))
    checkpoints = Checkpoints(tmp_path, 2)
    with pytest.raises(InputError, match="step 5: "):
        fit(trainer, checkpoints, constant(1.0))
    assert [path.name for path in checkpoints.all()] == ["step-00000003"]
    again, straight = plain_trainer(steps=20), plain_trainer(steps=20)
    assert checkpoints.load_newest(again)
    for _ in range(3):
        straight.step()
    assert same(snapshot(again), snapshot(straight))


@pytest.mark.parametrize("error", [
    torch.OutOfMemoryError("Tried to allocate 2.00 GiB"), MemoryError(),
    RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory")])
def test_memory_that_runs_out_is_told_with_what_helps(tmp_path, monkeypatch, error):
    def step():
        raise error

    trainer = plain_trainer(batch_size=24, accumulate=2)
    monkeypatch.setattr(trainer, "step", step, raising=False)
    with pytest.raises(InputError, match=r"step 0: out of memory; lower batch_size \(it is 24; with accumulate=4.*"
                                         "checkpointing=true"):
        fit(trainer, Checkpoints(tmp_path, 2), constant(1.0))


@pytest.mark.parametrize("error", [
    RuntimeError("CUDA error: an illegal memory access was encountered"), KeyError("out of memory")])
def test_other_errors_are_not_taken_for_it(tmp_path, monkeypatch, error):
    def step():
        raise error

    trainer = plain_trainer()
    monkeypatch.setattr(trainer, "step", step, raising=False)
    with pytest.raises(type(error)):
        fit(trainer, Checkpoints(tmp_path, 2), constant(1.0))
