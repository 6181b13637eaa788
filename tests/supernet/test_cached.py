"""A cached embedding computes the same."""

import pytest
import torch

from search_spaces import InputError
from search_spaces.files.loader import space_from_data
from supernet import Transformer
from supernet.compression.cached import cache_embedding


def model(embedding, head, positions="learned", family="lm"):
    layer = {"mixer": {"attention": {"n_heads": 2}}, "ffn": {"ffn": {"inner": "1x"}}}
    stack = {"slots": 1, "layers": {"only": layer}}
    data = {"schema_version": 1, "name": "cached", "family": family, "vocab_size": 23, "context": 8, "width": 16,
            "positions": positions, "embedding": embedding, "head": head}
    data |= {"decoder": stack} if family == "lm" else {"encoder": stack, "n_classes": 2}
    return Transformer(space_from_data(data, "cached").decode({}), seed=0).eval()


@torch.no_grad()
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize(("embedding", "head"), [
    ({"define_lookup": {"rank": 8, "expansion": 12, "depth": 2}}, {"tied": {"projection": "own"}}),
    ({"adaptive_lookup": {"rank": 8, "first": 5, "factor": 2}}, {"linear": {}}),
    ({"hashed_lookup": {"rank": 8, "buckets": 5}}, {"tied": {}}),
])
def test_it_computes_the_same(embedding, head, positions):
    before = model(embedding, head, positions)
    after = cache_embedding(before)
    tokens = torch.randint(0, 23, (2, 8))
    assert after.arch.embedding.kind == "lookup" and torch.allclose(before(tokens), after(tokens), atol=1e-5)


@pytest.mark.parametrize(("embedding", "head", "family", "says"), [
    ({"lookup": {}}, {"tied": {}}, "lm", "embedding: lookup cannot be stored"),
    ({"trigram_lookup": {"rank": 4}}, {"classifier": {}}, "encoder", "embedding: trigram_lookup cannot be stored"),
    ({"adaptive_lookup": {"first": 5, "factor": 2}}, {"tied": {}}, "lm", "head: adaptive_tied.* needs embedding "
                                                                         "tables"),
])
def test_what_cannot_be_cached_is_refused(embedding, head, family, says):
    with pytest.raises(InputError, match=says):
        cache_embedding(model(embedding, head, family=family))
