"""How embeddings start: what fresh layers hear of their tokens."""

import pytest
import torch

from search_spaces.files.loader import space_from_text
from supernet import Transformer

SPACE = space_from_text("""
{schema_version: 1, name: sizes, family: lm, vocab_size: 512, context: 16, width: 256, positions: rotary,
 embedding: {lookup: {rank: [32, full], norm_after: [false, true]}}, head: {tied: {}},
 decoder: {slots: 1, layers: {one: {mixer: {attention: {n_heads: 2}}, ffn: {ffn: {inner: 8}}}}}}
""", "sizes")
TOKENS = torch.arange(16)[None]


@pytest.mark.parametrize("rank", [32, "full"])
def test_normalised_rows_have_a_size_of_one(rank):
    arch = SPACE.decode({"embedding.lookup.rank": rank, "embedding.lookup.norm_after": True})
    model = Transformer(arch, seed=0).eval()
    assert model.embedding(TOKENS).square().mean().sqrt().item() == pytest.approx(1, rel=0.1)
