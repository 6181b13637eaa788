"""The packed and the bucketed split."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nas.tasks.splits import BucketedSplit, PackedSplit, Ragged
from nas.tasks.tokenizer import BOS, EOS, PAD
from supernet.batch import IGNORE


def packed(n: int, context: int) -> PackedSplit:
    return PackedSplit(np.array([EOS, *range(10, 10 + n), EOS], dtype=np.int32), context)


@pytest.mark.parametrize("n", [1, 5, 15, 16, 40, 63, 64, 65])
def test_evaluation_asks_for_every_token_once(n: int) -> None:
    split = packed(n, 16)
    batches = list(split.in_order(3))
    labels = torch.cat([batch.labels.flatten() for batch in batches])
    assert labels[labels != IGNORE].tolist() == [*range(10, 10 + n), EOS]
    assert sum(batch.tokens.shape[0] for batch in batches) == len(split)
    for batch in batches:
        real = batch.labels != IGNORE
        assert real.all() if batch.mask is None else torch.equal(real, batch.mask)
        assert (batch.tokens[~real] == PAD).all()
    assert sum(batch.tokens.shape[0] for batch in split.in_order(2, limit=1)) == 1


def test_a_limited_evaluation_is_a_fair_sample_in_order() -> None:
    rows = [[10 + i] for i in range(100)]
    bucketed = BucketedSplit(Ragged.of(rows), np.arange(100))
    for split in (packed(1600, 16), bucketed):
        whole = [row for batch in split.in_order(7) for row in batch.tokens[:, 0].tolist()]
        few, more = ([row for batch in split.in_order(7, limit) for row in batch.tokens[:, 0].tolist()]
                     for limit in (10, 30))
        assert len(few) == 10 and len(more) == 30 and set(few) < set(more) < set(whole)
        places = list(map(whole.index, few))
        assert places == sorted(places) and places[-1] > len(whole) // 2
        assert [row for batch in split.in_order(7, 1000) for row in batch.tokens[:, 0].tolist()] == whole


@pytest.mark.parametrize("n", [1, 5, 40, 63])
def test_training_windows_are_full_and_labels_are_shifted(n: int) -> None:
    split, follows = packed(n, 16), {EOS: 10, 10 + n - 1: EOS}
    for index in range(5):
        batch = split.batch(index, 3, 0)
        assert batch.mask is None and batch.tokens.shape == (3, 16)
        assert torch.equal(batch.tokens[:, 1:], batch.labels[:, :-1])
        for token, label in zip(batch.tokens.flatten().tolist(), batch.labels.flatten().tolist()):
            assert label == follows.get(token, token + 1)


def test_an_epoch_of_windows_covers_the_text_and_the_next_starts_elsewhere() -> None:
    split = packed(159, 16)
    assert len(split) == 10
    epochs = [[split.batch(i, 5, 0).tokens for i in (2 * epoch, 2 * epoch + 1)] for epoch in range(3)]
    for epoch in epochs:
        assert sorted(torch.cat(epoch).flatten().tolist()) == [EOS, *range(10, 169)]
    assert len({tuple(sorted(torch.cat(epoch)[:, 0].tolist())) for epoch in epochs}) == 3


def bucketed(n: int) -> BucketedSplit:
    """Example i has the class i and reads i, i, ..."""
    lengths = [(i * 37) % 23 + 1 for i in range(n)]
    return BucketedSplit(Ragged.of([[4 + i] * length for i, length in enumerate(lengths)]), np.arange(n))


@pytest.mark.parametrize("n,size", [(60, 4), (1000, 8), (7, 7), (9, 1)])
def test_an_epoch_takes_every_example_once(n: int, size: int) -> None:
    split, per_epoch = bucketed(n), n // size + bool(n % size)
    for epoch in range(2):
        seen = [split.batch(epoch * per_epoch + i, size, 5).labels for i in range(per_epoch)]
        assert sorted(torch.cat(seen).tolist()) == list(range(n))


@pytest.mark.parametrize("n,size", [(10, 4), (3, 8), (1, 5)])
def test_an_epoch_that_does_not_divide_repeats_some(n: int, size: int) -> None:
    split = bucketed(n)
    seen = torch.cat([split.batch(i, size, 0).labels for i in range(-(-n // size))]).tolist()
    assert set(seen) == set(range(n)) and len(seen) % size == 0


def test_padding_is_masked_and_little() -> None:
    split, padding = bucketed(1000), 0
    for index in range(100):
        batch = split.batch(index, 8, 0)
        mask = torch.ones_like(batch.tokens, dtype=torch.bool) if batch.mask is None else batch.mask
        assert torch.equal(batch.tokens != PAD, mask) and (mask.sum(1) == mask.cumprod(1).sum(1)).all()
        assert (batch.tokens[:, 0] == batch.labels + 4).all()
        padding += int((~mask).sum())
    assert padding < 0.15 * sum(split.batch(index, 8, 0).tokens.numel() for index in range(100))


def test_targets_are_shifted_by_one() -> None:
    split = BucketedSplit(Ragged.of([[7, EOS], [8, 9, EOS]]), targets=Ragged.of([[BOS, 5, 6, EOS], [BOS, EOS]]))
    batch, = split.in_order(2)
    assert batch.target is not None and batch.mask is not None and batch.target_mask is not None
    assert batch.tokens.tolist() == [[7, EOS, PAD], [8, 9, EOS]]
    assert batch.mask.tolist() == [[True, True, False], [True, True, True]]
    assert batch.target.tolist() == [[BOS, 5, 6], [BOS, PAD, PAD]]
    assert batch.labels.tolist() == [[5, 6, EOS], [EOS, IGNORE, IGNORE]]
    assert batch.target_mask.tolist() == [[True, True, True], [True, False, False]]
