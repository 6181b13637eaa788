"""Checkpoints: exact resume from any step, whole or not there, and sentences for damaged ones."""

import errno
import json
import multiprocessing
import resource
import warnings

import pytest
import torch

from search_spaces import InputError
from supernet import Supernet
from supernet.train import checkpoint
from supernet.train.checkpoint import Checkpoints, load_tensors, newest_step, read_progress
from supernet.train.fit import fit
from supernet.train.step import Trainer
from tests.supernet.toys import LM, Rows, plain_trainer, recipe, same, snapshot, supernet_trainer

EVERYTHING = {"dropout": 0.2, "layerdrop": 0.3, "accumulate": 2, "batch_size": 2, "ema": 0.9, "steps": 6,
              "evaluate_every": 2, "checkpoint_every": 1, "keep": 99, "label_smoothing": 0.1, "warmup": 2}


def evaluate(trainer):
    with trainer.averaged():
        arch = trainer.strategy.draw(0)[0]
        return {"loss": float(trainer.logits(arch, trainer.data.batch(0, 2, 9)).square().mean())}


def trained(steps=1, make=plain_trainer, **settings):
    trainer = make(**settings)
    for _ in range(steps):
        trainer.step()
    return trainer


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("make", [plain_trainer, supernet_trainer])
def test_a_training_resumed_after_any_step_ends_bit_for_bit_alike(tmp_path, make):
    straight, checkpoints = make(**EVERYTHING), Checkpoints(tmp_path, keep=99)
    assert fit(straight, checkpoints, evaluate)
    found = checkpoints.all()
    assert [path.name for path in found] == [f"step-{step:08d}" for step in range(1, 7)]
    for path in found[:-1]:
        torch.manual_seed(1234)  # whatever random numbers others drew
        resumed = make(**EVERYTHING)
        resumed.load(load_tensors(path / "state.safetensors"), read_progress(path / "state.json"))
        assert fit(resumed, Checkpoints(tmp_path / "again" / path.name, keep=1), evaluate)
        assert same(snapshot(resumed), snapshot(straight)), path.name
        assert resumed.progress == straight.progress


@pytest.mark.parametrize("make", [plain_trainer, supernet_trainer])
def test_a_round_trip_keeps_every_tensor_and_number(tmp_path, make):
    trainer = trained(3, make, ema=0.9)
    trainer.progress.best_loss, trainer.progress.skipped = 0.1 + 0.2, 7
    path = Checkpoints(tmp_path, 2).save(trainer)
    assert names(path) == ["state.json", "state.safetensors"]
    again = make(ema=0.9, seed=5)
    assert Checkpoints(tmp_path, 2).load_newest(again)
    assert same(snapshot(again), snapshot(trainer))
    assert again.progress == trainer.progress
    assert any(name.startswith("adam/step/") for name in snapshot(again))


def test_loading_copies():
    trainer, again = trained(ema=0.9), plain_trainer(ema=0.9)
    tensors = trainer.tensors()
    again.load(tensors, trainer.progress)
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    again.step()
    assert all(torch.equal(tensors[name], before[name]) for name in before)


def test_everything_goes_to_the_device_of_the_weights():
    """A fused optimiser on an accelerator needs its count of steps there."""
    trainer = trained(make=supernet_trainer)
    away = Trainer(Supernet(LM).to("meta"), trainer.strategy, recipe(), Rows())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing is copied to a meta tensor
        away.load(trainer.tensors(), trainer.progress)
    assert {tensor.device.type for tensor in away.optimiser.tensors().values()} == {"meta"}


def test_where_there_is_none_nothing_is_loaded(tmp_path):
    trainer = plain_trainer()
    before = snapshot(trainer)
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert not Checkpoints(folder, 2).load_newest(trainer)
        assert (Checkpoints(folder, 2).all(), newest_step(folder)) == ([], 0)
    assert same(before, snapshot(trainer))


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_newest_are_kept(tmp_path, keep):
    trainer, checkpoints = plain_trainer(), Checkpoints(tmp_path, keep)
    for _ in range(5):
        trainer.step()
        checkpoints.save(trainer)
    assert names(tmp_path) == [f"step-{step:08d}" for step in range(6 - keep, 6)]
    assert newest_step(tmp_path) == 5


def test_one_that_is_there_is_not_written_again(tmp_path):
    trainer, checkpoints = trained(), Checkpoints(tmp_path, 2)
    path = checkpoints.save(trainer)
    before = (path / "state.safetensors").stat()
    assert checkpoints.save(trainer) == path
    assert (path / "state.safetensors").stat() == before


def test_leftovers_are_never_loaded_and_swept_with_the_next(tmp_path):
    trainer, checkpoints = trained(), Checkpoints(tmp_path, 2)
    checkpoints.save(trainer)
    for name in (".step-00000009.123", ".step-00000000"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.safetensors").write_bytes(b"half")
    assert newest_step(tmp_path) == 1
    again = plain_trainer()
    assert checkpoints.load_newest(again)
    assert again.progress.step == 1
    again.step()
    checkpoints.save(again)
    assert names(tmp_path) == ["step-00000001", "step-00000002"]


def test_what_the_user_puts_beside_them_is_left_alone(tmp_path):
    (tmp_path / "step-00000001.bak").mkdir()
    (tmp_path / "notes.txt").write_text("best so far", "utf-8")
    trainer, checkpoints = plain_trainer(), Checkpoints(tmp_path, 1)
    for _ in range(3):
        trainer.step()
        checkpoints.save(trainer)
    assert names(tmp_path) == ["notes.txt", "step-00000001.bak", "step-00000003"]
    assert newest_step(tmp_path) == 3


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(("name", "damage"), [
    ("state.safetensors", cut),
    ("state.safetensors", lambda path: path.write_bytes(b"")),
    ("state.safetensors", lambda path: path.write_bytes(b"\xff" * 100)),
    ("state.safetensors", lambda path: path.unlink()),
    ("state.json", cut),
    ("state.json", lambda path: path.write_bytes(b"\xff\xfe")),
    ("state.json", lambda path: path.write_text("[]", "utf-8")),
    ("state.json", lambda path: path.write_text('{"schema_version": 1}', "utf-8")),
    ("state.json", lambda path: path.unlink()),
])
def test_a_damaged_one_is_told_in_one_sentence(tmp_path, name, damage):
    checkpoints = Checkpoints(tmp_path, 2)
    path = checkpoints.save(trained()) / name
    damage(path)
    with pytest.raises(InputError) as caught:
        checkpoints.load_newest(plain_trainer())
    said = str(caught.value)
    assert said.startswith(str(path)) and "\n" not in said
    assert "delete its folder to resume from the previous checkpoint" in said


def test_another_schema_is_told(tmp_path):
    path = Checkpoints(tmp_path, 2).save(trained()) / "state.json"
    state = json.loads(path.read_text("utf-8"))
    for changed in ({**state, "schema_version": 2}, {**state, "progress": {**state["progress"], "new": 1}}):
        path.write_text(json.dumps(changed), "utf-8")
        with pytest.raises(InputError, match="has a different schema; this version reads schema_version 1"):
            Checkpoints(tmp_path, 2).load_newest(plain_trainer())


def test_one_of_another_model_is_told(tmp_path):
    checkpoints = Checkpoints(tmp_path, 2)
    checkpoints.save(trained())
    for other in (plain_trainer(LM.smallest()), supernet_trainer(), plain_trainer(ema=0.9)):
        with pytest.raises(InputError, match="step-00000001: does not fit the space and the settings"):
            checkpoints.load_newest(other)


def full_disk(tensors, path):
    path.write_bytes(b"half of it")
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_the_one_before(tmp_path, monkeypatch):
    trainer, checkpoints = trained(), Checkpoints(tmp_path, 1)
    monkeypatch.setattr(checkpoint, "save_tensors", full_disk)
    with pytest.raises(InputError, match="step-00000001: cannot be written .No space left on device.; there is no"):
        checkpoints.save(trainer)
    assert names(tmp_path) == []
    monkeypatch.undo()
    checkpoints.save(trainer)
    before = snapshot(trainer)
    trainer.step()
    monkeypatch.setattr(checkpoint, "save_tensors", full_disk)
    with pytest.raises(InputError, match="cannot be written .No space left on device.; step-00000001 is intact"):
        checkpoints.save(trainer)
    assert names(tmp_path) == ["step-00000001"]
    again = plain_trainer()
    assert checkpoints.load_newest(again)
    assert same(before, snapshot(again))


def _save_with_little_room(trainer, folder, pipe):
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        Checkpoints(folder, 1).save(trainer)
        pipe.send("written")
    except BaseException as error:
        pipe.send(f"{type(error).__name__}: {error}")


def test_a_file_that_may_not_grow_leaves_the_one_before(tmp_path):
    """The same through the real writer, in a process whose files may not be large."""
    trainer, checkpoints = trained(), Checkpoints(tmp_path, 1)
    size = (checkpoints.save(trainer) / "state.safetensors").stat().st_size
    assert size > 40_000
    trainer.step()
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_save_with_little_room, args=(trainer, tmp_path, there))
    child.start()
    assert here.poll(60)
    said = here.recv()
    child.join(60)
    assert child.exitcode == 0
    assert said.startswith("InputError: ") and "File too large" in said and said.endswith("step-00000001 is intact")
    assert names(tmp_path) == ["step-00000001"]
    assert checkpoints.load_newest(plain_trainer())


def test_a_folder_nobody_may_write_to_is_told(tmp_path):
    (tmp_path / "file").write_text("in the way", "utf-8")
    with pytest.raises(InputError, match="cannot be written"):
        Checkpoints(tmp_path / "file", 1).save(trained())
