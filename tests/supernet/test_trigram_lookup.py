"""The embedding of three tokens, written out; it is for encoders."""

import pytest
import torch

from search_spaces import InputError
from search_spaces.files.loader import space_from_data
from supernet.blocks.trigram_lookup import TrigramLookup
from supernet.build import fresh

COMMON = {"width": 12, "vocab_size": 23, "context": 8, "positions": "none", "bias": True}


@torch.no_grad()
def test_three_tokens_side_by_side():
    made = fresh(TrigramLookup(**COMMON, n_types=0, norm="layernorm", rank=4, norm_after=False))
    tokens = torch.tensor([[5, 3, 9, 0, 0]])
    rows, nothing = made.table.weight, torch.zeros(4)
    for i, around in enumerate([(rows[3], rows[5], nothing), (rows[9], rows[3], rows[5]), (nothing, rows[9], rows[3])]):
        assert torch.allclose(made(tokens)[0, i], made.project(torch.cat(around)), atol=1e-6)
    assert torch.allclose(made(tokens)[:, :3], made(tokens[:, :3]), atol=1e-6)  # padding is as if it were not there


def test_an_embedding_that_sees_the_next_token_is_for_encoders():
    data = {"schema_version": 1, "name": "cheat", "family": "lm", "vocab_size": 23, "context": 8, "width": 16,
            "embedding": {"trigram_lookup": {"rank": 4}}, "head": {"linear": {}},
            "decoder": {"slots": 1, "layers": {"only": {"mixer": {"attention": {"n_heads": 2}},
                                                        "ffn": {"ffn": {"inner": "1x"}}}}}}
    with pytest.raises(InputError, match=r"embedding.trigram_lookup: is not causal"):
        space_from_data(data, "cheat")
