"""Hash embeddings against a loop over words, and how evenly the hashes spread them."""

import pytest
import torch

from supernet.blocks.hashed_lookup import HashedLookup, hashed
from supernet.build import fresh

COMMON = {"width": 12, "vocab_size": 23, "context": 8, "positions": "none", "bias": True}


@torch.no_grad()
@pytest.mark.parametrize("rank", [4, 12])
def test_hashed_rows_are_summed(rank):
    made = fresh(HashedLookup(**COMMON, rank=rank, buckets=7, hashes=3))
    made.weights.weight.normal_()
    for word in range(23):
        ids = [(word * pow(48271, i + 1, 2**31 - 1) + pow(16807, i + 1, 2**31 - 1)) % (2**31 - 1) % 7 for i in range(3)]
        row = sum(made.weights.weight[word, i] * made.rows.weight[bucket] for i, bucket in enumerate(ids))
        expected = row if made.project is None else made.project(row)
        assert torch.allclose(made(torch.tensor([[word]]))[0, 0], expected, atol=1e-6)


def test_hashes_spread_words_evenly_and_independently():
    ids = torch.arange(20_000)
    for which in range(3):
        loads = torch.bincount(hashed(ids, which, 100), minlength=100)
        assert loads.min() > 120 and loads.max() < 280
    same = (hashed(ids, 0, 100) == hashed(ids, 1, 100)).float().mean()
    assert 0.005 < same < 0.02
