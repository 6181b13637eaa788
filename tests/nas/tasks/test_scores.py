"""Scores of models whose scores are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from nas import tasks
from nas.tasks import Prepared
from nas.tasks.tokenizer import BOS, EOS
from supernet.batch import Batch
from tests.nas.tasks.conftest import SPACES, Prepare

Files = dict[str, dict[str, object]]


def uniform(prepared: Prepared) -> Callable[[Batch], Tensor]:
    n = len(prepared.labels) or prepared.space.vocab_size
    return lambda batch: torch.zeros(*(batch.labels.shape), n)


@pytest.mark.parametrize("task", SPACES)
def test_a_model_that_knows_nothing(task: str, prepare: Prepare, files: Files) -> None:
    prepared = prepare(task, files[task])
    for limit in (None, 2):
        scores = tasks.get(task).evaluate(uniform(prepared), prepared, "test", size=2, limit=limit, full=False)
        n = len(prepared.labels) or prepared.space.vocab_size
        assert scores["loss"] == pytest.approx(math.log(n), rel=1e-6)
        assert scores.get("perplexity", n) == pytest.approx(n, rel=1e-5)


def test_loss_weighs_labels_not_batches(prepare: Prepare, files: Files) -> None:
    prepared = prepare("translation", files["translation"])

    def unsure_of_the_end(batch: Batch) -> Tensor:
        right = one_hot(batch.labels.clamp(min=0), prepared.space.vocab_size) * 100.0
        return torch.where((batch.labels == EOS)[..., None], torch.zeros_like(right), right)

    scores = tasks.get("translation").evaluate(unsure_of_the_end, prepared, "train", size=7, limit=20, full=False)
    n = sum(batch.n_labels for batch in prepared.train.in_order(1, 20))
    assert scores["loss"] == pytest.approx(20 * math.log(prepared.space.vocab_size) / n)
    assert scores["accuracy"] == pytest.approx(1 - 20 / n)


def test_accuracy_and_f1_by_hand(prepare: Prepare, files: Files) -> None:
    prepared = prepare("classification", files["classification"])
    assert prepared.labels == ("c0", "c1", "c2") and prepared.space.n_classes == 3
    always_first = lambda batch: one_hot(torch.zeros_like(batch.labels), 3).float()  # noqa: E731
    labels = torch.cat([batch.labels for batch in prepared.train.in_order(10)])
    scores = tasks.get("classification").evaluate(always_first, prepared, "train", size=10, limit=None, full=True)
    share = float((labels == 0).float().mean())
    assert scores["accuracy"] == pytest.approx(share)
    assert scores["macro_f1"] == pytest.approx(2 * share / (share + 1) / 3)
    oracle = lambda batch: one_hot(batch.labels, 3) * 50.0  # noqa: E731
    scores = tasks.get("classification").evaluate(oracle, prepared, "valid", size=2, limit=None, full=True)
    assert scores["accuracy"] == scores["macro_f1"] == 1.0


def copying(prepared: Prepared) -> Callable[[Batch], Tensor]:
    """Writes its source, one token later at each call; the last source token is `<eos>`."""
    def logits(batch: Batch) -> Tensor:
        assert batch.target is not None and (batch.target[:, 0] == BOS).all()
        m = batch.target.shape[1]
        ids = torch.cat([batch.tokens, torch.zeros(len(batch.tokens), m, dtype=torch.int64)], dim=1)[:, :m]
        return one_hot(ids, prepared.space.vocab_size).float()
    return logits


def test_a_model_that_copies_has_bleu_100(prepare: Prepare, files: Files) -> None:
    same = {**files["translation"], "target": "en"}
    prepared = prepare("translation", same, context=64)
    scores = tasks.get("translation").evaluate(copying(prepared), prepared, "train", size=8, limit=30, full=True)
    assert scores["bleu"] == pytest.approx(100) and scores["exact_match"] == scores["accuracy"] == 1.0
    other = prepare("translation", files["translation"], folder="other", context=64)
    scores = tasks.get("translation").evaluate(copying(other), other, "train", size=8, limit=30, full=True)
    assert scores["bleu"] < 50 and scores["exact_match"] < 0.5


def test_bleu_of_single_words_is_not_zero(prepare: Prepare, tmp_path: Path) -> None:
    (tmp_path / "pairs.en").write_text("".join(f"{'ab' * i}\n" for i in range(1, 31)), "utf-8")
    prepared = prepare("translation", {"train": tmp_path / "pairs", "source": "en", "target": "en", "vocab_size": 8},
                       context=64)
    scores = tasks.get("translation").evaluate(copying(prepared), prepared, "train", size=8, limit=None, full=True)
    assert scores["bleu"] == pytest.approx(100)


def test_a_model_that_never_ends_is_stopped(prepare: Prepare, files: Files) -> None:
    prepared = prepare("translation", files["translation"], context=12)
    longest = 0

    def chatter(batch: Batch) -> Tensor:
        nonlocal longest
        assert batch.target is not None
        longest = max(longest, batch.target.shape[1])
        return one_hot(torch.full_like(batch.target, 10), prepared.space.vocab_size).float()

    scores = tasks.get("translation").evaluate(chatter, prepared, "valid", size=2, limit=2, full=True)
    assert longest <= 12 and scores["exact_match"] == 0.0
