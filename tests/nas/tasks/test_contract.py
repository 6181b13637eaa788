"""What every task keeps to, whatever its data."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from nas import tasks
from nas.tasks.options import SPLITS
from search_spaces import InputError, load_space
from supernet import Transformer
from supernet.batch import Batch
from tests.nas.tasks.conftest import SPACES, Prepare, small

TASKS = tasks.names()
Files = dict[str, dict[str, object]]


def same(one: Batch, other: Batch) -> bool:
    pairs = zip(vars(one).values(), vars(other).values())
    return all(a is b is None or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs)


def test_the_tasks_are_found() -> None:
    assert TASKS == ["classification", "lm", "translation"]
    with pytest.raises(InputError, match="unknown 'vision'; allowed: classification, lm, translation"):
        tasks.get("vision")


@pytest.mark.parametrize("task", TASKS)
def test_batches_are_a_pure_function(task: str, prepare: Prepare, files: Files) -> None:
    first, second = prepare(task, files[task]).train, prepare(task, files[task]).train
    calls = [(index, size, seed) for index in (0, 1, 40, 7) for size in (4, 5) for seed in (0, -3)]
    wanted = [first.batch(*call) for call in calls]
    assert all(same(second.batch(*call), batch) for call, batch in reversed(list(zip(calls, wanted))))
    with ThreadPoolExecutor(4) as threads:
        assert all(map(same, threads.map(lambda call: first.batch(*call), calls * 5), wanted * 5))
    assert same(pickle.loads(pickle.dumps(first)).batch(3, 4, 1), first.batch(3, 4, 1))


@pytest.mark.parametrize("task", TASKS)
def test_seeds_and_epochs_shuffle_anew(task: str, prepare: Prepare, files: Files) -> None:
    train = prepare(task, files[task]).train
    per_epoch = -(-len(train) // 4)
    assert not same(train.batch(0, 4, 0), train.batch(0, 4, 1))
    assert not same(train.batch(0, 4, 0), train.batch(per_epoch, 4, 0))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_every_batch_has_its_size(task: str, size: int, prepare: Prepare, files: Files) -> None:
    train = prepare(task, files[task]).train
    for index in range(3):
        batch = train.batch(index, size, 0)
        assert batch.tokens.shape[0] == batch.labels.shape[0] == size
        assert batch.tokens.dtype == batch.labels.dtype == torch.int64


@pytest.mark.parametrize("task", TASKS)
def test_the_cache_gives_the_same_without_the_sources(task: str, prepare: Prepare, files: Files,
                                                      tmp_path: Path) -> None:
    first = prepare(task, files[task])
    for path in tmp_path.iterdir():
        if path.is_file():
            path.unlink()
    again = prepare(task, files[task])
    assert again.fingerprint == first.fingerprint and again.labels == first.labels and again.notes == first.notes
    assert again.space.vocab_size == first.space.vocab_size
    assert again.tokenizer.get_vocab() == first.tokenizer.get_vocab()
    for split in SPLITS:
        assert all(map(same, first.split(split).in_order(4), again.split(split).in_order(4)))
    assert sorted(path.name for path in (tmp_path / "prepared").iterdir()) == [
        "data.json", "data.safetensors", "tokenizer.json"]


def test_two_may_prepare_one_folder_at_once(prepare: Prepare, files: Files, tmp_path: Path) -> None:
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda _: prepare("lm", files["lm"]).fingerprint, range(12)))
    assert len(set(found)) == 1 and len(list((tmp_path / "prepared").iterdir())) == 3


@pytest.mark.parametrize("task", TASKS)
def test_fingerprints_follow_the_data(task: str, prepare: Prepare, files: Files, tmp_path: Path) -> None:
    first = prepare(task, files[task], folder="one").fingerprint
    assert prepare(task, files[task], folder="two").fingerprint == first
    assert prepare(task, files[task], folder="seed", seed=1).fingerprint != first
    for path in tmp_path.glob("*.*"):
        path.write_text(path.read_text("utf-8").replace("fox", "cat"), "utf-8")
    assert prepare(task, files[task], folder="three").fingerprint != first


@pytest.mark.parametrize("task", TASKS)
def test_another_family_is_refused(task: str, tmp_path: Path) -> None:
    other = load_space("lm-tiny" if task != "lm" else "encoder-small")
    with pytest.raises(InputError, match=f"task {task} needs a space of the family \\w+; {other.name} is"):
        tasks.get(task).prepare({}, other, tmp_path, 0)


@pytest.mark.parametrize("task", TASKS)
def test_a_real_model_can_be_scored(task: str, prepare: Prepare, files: Files) -> None:
    prepared = prepare(task, files[task])
    model = Transformer(prepared.space.smallest(), seed=0).eval()

    def logits(batch: Batch) -> torch.Tensor:
        return model(batch.tokens, batch.target, mask=batch.mask, target_mask=batch.target_mask)

    scores = tasks.get(task).evaluate(logits, prepared, "valid", size=2, limit=None, full=True)
    larger = tasks.get(task).evaluate(logits, prepared, "valid", size=50, limit=None, full=True)
    assert scores == pytest.approx(larger, rel=1e-4), "batches must not matter"
    assert len(scores) > 1 and scores["loss"] > 0
    assert all(isinstance(value, float) for value in scores.values())


def test_a_fitted_space_finds_its_data_again(tmp_path: Path) -> None:
    space = load_space("seq2seq-small")
    first = tasks.get("translation").prepare({"size": "300"}, space, tmp_path, 0)
    assert first.space.vocab_size == 256 and "not the 4,096 of the space" in first.notes[0]
    again = tasks.get("translation").prepare({"size": "300"}, first.space, tmp_path, 0)
    assert again.fingerprint == first.fingerprint


def test_a_head_without_classes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a space with the head classifier; albert has no classes"):
        tasks.get("classification").prepare({}, load_space("albert"), tmp_path, 0)


@pytest.mark.parametrize("task", TASKS)
def test_the_embedded_data_fill_the_small_spaces(task: str, tmp_path: Path) -> None:
    space = load_space({**SPACES, "lm": "lm-small"}[task])
    data = {"size": "2000"} if task == "translation" else {}
    prepared = tasks.get(task).prepare(data, space, tmp_path, 0)
    assert prepared.space.vocab_size == (256 if task == "translation" else 4096)
    assert len(prepared.labels) == (8 if task == "classification" else 0)
    assert min(len(prepared.train), len(prepared.valid), len(prepared.test)) >= 50


def test_the_context_of_the_space_is_kept(prepare: Prepare, files: Files) -> None:
    prepared = prepare("classification", files["classification"], context=4)
    assert prepared.train.batch(0, 60, 0).tokens.shape[1] == 4
    note, = prepared.notes
    assert note.endswith("of 60 sequences are longer than the context of 4 and were cut")
    pairs = prepare("translation", files["translation"], context=4, folder="pairs")
    batch = pairs.train.batch(0, 54, 0)
    assert batch.tokens.shape[1] == 4 and batch.labels.shape[1] == 4 and "of 120 sequences" in pairs.notes[0]
    assert small("lm").context == 16
