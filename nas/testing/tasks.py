"""What every task promises."""

from __future__ import annotations

import dataclasses
import math
import pickle
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from nas import tasks
from nas.tasks import Prepared, Task
from nas.tasks.answering import TrainedModel
from nas.tasks.options import SPLITS
from nas.tasks.tokenizer import encode
from search_spaces import InputError, SearchSpace, load_space, shipped_spaces
from supernet import Transformer
from supernet.batch import Batch

WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "seven", "wizards", "brew")
N_ROWS = 60


def sentence(i: int) -> str:
    """Sentences that differ in words and length."""
    return " ".join(WORDS[(i * 7 + j * (i % 5 + 1)) % len(WORDS)] for j in range(i % 6 + 1))


def same(one: Batch, other: Batch) -> bool:
    """Whether two batches are equal."""
    pairs = zip(vars(one).values(), vars(other).values())
    return all(a is b is None or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs)


class TaskContract(ABC):
    """Set `name` to that of your task, and write small data for it in `data`."""

    name: str
    sample_options: Mapping[str, str] = {}
    """Data options that make the bundled sample small."""

    @abstractmethod
    def data(self, folder: Path) -> dict[str, str]:
        """Write a training file of about 60 rows to the folder; returns the data options that name it.

        Its rows can be made with `sentence`: one of its words has to be fox.
        """

    @property
    def task(self) -> Task:
        """The task under test."""
        return tasks.get(self.name)

    def space(self) -> SearchSpace:
        """A space for the task with few tokens."""
        return dataclasses.replace(load_space(self.task.first_space), vocab_size=64, context=16)

    def prepared(self, folder: Path, name: str = "prepared", seed: int = 0) -> Prepared:
        """The small data, encoded."""
        return self.task.prepare(self.data(folder), self.space(), folder / name, seed)

    def test_the_declaration_is_complete(self) -> None:
        task = self.task
        assert all((task.name, task.help, task.title, task.roles)) and "loss" in task.metrics
        assert set(task.costly) <= set(task.metrics) and set(task.from_loss) <= set(task.metrics)
        assert task.first_space in shipped_spaces()
        task.check(load_space(task.first_space))

    def test_batches_are_a_pure_function(self, tmp_path: Path) -> None:
        first, second = self.prepared(tmp_path).train, self.prepared(tmp_path).train
        calls = [(index, size, seed) for index in (0, 1, 40, 7) for size in (4, 5) for seed in (0, -3)]
        wanted = [first.batch(*call) for call in calls]
        assert all(same(second.batch(*call), batch) for call, batch in reversed(list(zip(calls, wanted))))
        with ThreadPoolExecutor(4) as threads:
            assert all(map(same, threads.map(lambda call: first.batch(*call), calls * 5), wanted * 5))
        assert same(pickle.loads(pickle.dumps(first)).batch(3, 4, 1), first.batch(3, 4, 1))  # noqa: S301 - our own

    def test_seeds_and_epochs_shuffle_again(self, tmp_path: Path) -> None:
        train = self.prepared(tmp_path).train
        per_epoch = -(-len(train) // 4)
        assert not same(train.batch(0, 4, 0), train.batch(0, 4, 1))
        assert not same(train.batch(0, 4, 0), train.batch(per_epoch, 4, 0))

    def test_every_batch_has_its_size(self, tmp_path: Path) -> None:
        train = self.prepared(tmp_path).train
        for size in (1, 7, 1000):
            for batch in (train.batch(index, size, 0) for index in range(3)):
                assert batch.tokens.shape[0] == batch.labels.shape[0] == size and batch.n_labels > 0
                assert batch.tokens.dtype == torch.int64 and batch.labels.dtype in (torch.int64, torch.float32)

    def test_the_cache_gives_the_same_without_the_sources(self, tmp_path: Path) -> None:
        options = self.data(tmp_path)
        first = self.task.prepare(options, self.space(), tmp_path / "prepared", 0)
        for path in tmp_path.iterdir():
            if path.is_file():
                path.unlink()
        again = self.task.prepare(options, self.space(), tmp_path / "prepared", 0)
        for part in ("fingerprint", "labels", "notes", "scale"):
            assert getattr(again, part) == getattr(first, part)
        assert again.space.vocab_size == first.space.vocab_size
        assert again.tokenizer.get_vocab() == first.tokenizer.get_vocab()
        for split in SPLITS:
            assert all(map(same, first.split(split).in_order(4), again.split(split).in_order(4)))
        assert sorted(path.name for path in (tmp_path / "prepared").iterdir()) == [
            "data.json", "data.safetensors", "tokenizer.json"]

    def test_fingerprints_follow_the_data(self, tmp_path: Path) -> None:
        options = self.data(tmp_path)

        def fingerprint(folder: str, seed: int = 0) -> str:
            return self.task.prepare(options, self.space(), tmp_path / folder, seed).fingerprint

        first = fingerprint("one")
        assert fingerprint("two") == first != fingerprint("seed", 1)
        for path in tmp_path.glob("*.*"):
            path.write_text(path.read_text("utf-8").replace("fox", "cat"), "utf-8")
        assert fingerprint("three") != first

    def test_another_family_is_refused(self, tmp_path: Path) -> None:
        other = load_space("lm-tiny" if self.task.family != "lm" else "encoder-small")
        with pytest.raises(InputError, match=f"task {self.name} needs a space of the family \\w+; {other.name} is"):
            self.task.prepare({}, other, tmp_path, 0)

    def test_a_model_is_scored_whatever_the_batches(self, tmp_path: Path) -> None:
        prepared, task = self.prepared(tmp_path), self.task
        model = Transformer(prepared.space.smallest(), seed=0).eval()
        seen: list[float] = []

        def logits(batch: Batch) -> torch.Tensor:
            outputs: torch.Tensor = model(batch.tokens, batch.target, mask=batch.mask, target_mask=batch.target_mask)
            return outputs

        few = task.evaluate(logits, prepared, "valid", size=2, limit=None, full=True, watch=seen.append)
        many = task.evaluate(logits, prepared, "valid", size=50, limit=None, full=False)
        assert set(few) == set(task.metrics) and set(many) == set(task.metrics) - set(task.costly)
        assert {name: few[name] for name in many} == pytest.approx(many, rel=1e-4, abs=1e-6), "batches must not matter"
        assert all(type(value) is float and math.isfinite(value) for value in few.values()) and few["loss"] > 0
        labels = sum(batch.n_labels for batch in prepared.valid.in_order(2))
        assert sum(seen) / labels == pytest.approx(few["loss"], rel=1e-4), "watch gets the loss of every batch"
        for name, follows in task.from_loss.items():
            assert follows(few["loss"]) == pytest.approx(few[name])

    def test_a_model_answers_or_another_command_runs_it(self, tmp_path: Path) -> None:
        prepared = self.prepared(tmp_path)
        model = Transformer(prepared.space.smallest(), seed=0).eval()
        trained = TrainedModel("here", model, prepared.tokenizer, prepared.labels, prepared.scale)
        for text in ("the quick brown fox", "", "fox " * 40):
            ids = next(encode(prepared.tokenizer, [text]))
            if type(self.task).answer is Task.answer:
                with pytest.raises(InputError, match=f"use {self.task.command}"):
                    self.task.answer(trained, text, ids)
            else:
                answer = self.task.answer(trained, text, ids)
                assert answer == self.task.answer(trained, text, ids) and answer.text == text
                assert isinstance(answer.line, str)
        assert all(isinstance(line, str) for line in self.task.snippet(model.arch))

    def test_the_bundled_sample_fills_the_first_space(self, tmp_path: Path) -> None:
        space = load_space(self.task.first_space)
        prepared = self.task.prepare(dict(self.sample_options), space, tmp_path, 0)
        assert prepared.space.vocab_size == min(space.vocab_size, self.task.embedded_vocab)
        assert min(len(prepared.train), len(prepared.valid), len(prepared.test)) >= 50
