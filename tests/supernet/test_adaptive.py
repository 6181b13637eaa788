"""Adaptive input and softmax against a full table and a full softmax made of their parts."""

import pytest
import torch
import torch.nn.functional as F

from search_spaces.files.loader import space_from_data
from supernet import Transformer
from supernet.blocks.adaptive_lookup import AdaptiveLookup
from supernet.blocks.adaptive_softmax import AdaptiveSoftmaxHead
from supernet.blocks.adaptive_tied import AdaptiveTiedHead
from supernet.build import fresh
from supernet.layers.bands import describe_bands

BANDS = {"bands": 3, "first": 4, "growth": 2.0, "factor": 2}
ENDS = ((0, 4), (4, 8), (8, 23))


def full_softmax(frequent, bands, rare):
    """The probability of every word, one after the other."""
    first = torch.cat([frequent, bands], dim=-1).softmax(-1)
    words = [first[..., i] for i in range(frequent.shape[-1])]
    for i, logits in enumerate(rare):
        words += [first[..., frequent.shape[-1] + i] * p for p in logits.softmax(-1).unbind(-1)]
    return torch.stack(words, dim=-1)


@torch.no_grad()
@pytest.mark.parametrize("factor", [1, 2])
def test_a_head_with_own_matrices_is_a_full_softmax(factor):
    head = fresh(AdaptiveSoftmaxHead(width=8, vocab_size=23, **{**BANDS, "factor": factor}))
    x = torch.randn(2, 5, 8)
    logits = []
    for i in range(3):
        projected = head.get_submodule(f"project{i}")(x) if factor > 1 and i else x
        logits.append(head.get_submodule(f"words{i}")(projected))
    sizes = torch.tensor([4.0, 15.0]).log()  # bands start as likely as they are large
    expected = full_softmax(logits[0], head.bands(x) + sizes, logits[1:])
    found = head(x, None, {})
    assert torch.allclose(found.exp(), expected, atol=1e-6)
    assert torch.allclose(found.logsumexp(-1), torch.zeros(2, 5), atol=1e-5)
    assert hasattr(head, "project1") == (factor > 1)


@torch.no_grad()
def test_an_embedding_is_a_full_table_of_its_bands():
    made = fresh(AdaptiveLookup(width=12, vocab_size=23, context=8, positions="none", bias=True, rank=8, scale=False,
                                **BANDS))
    rows = torch.cat([made.bands.get_submodule(f"words{i}").weight @ made.bands.get_submodule(f"map{i}").weight.T
                      for i in range(3)])
    tokens = torch.arange(23)[None]
    assert torch.allclose(made(tokens), F.linear(rows, made.project.weight, made.project.bias)[None], atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("projection", ["shared", "own"])
def test_a_tied_head_is_a_full_softmax_over_the_same_table(projection):
    made = fresh(AdaptiveLookup(width=12, vocab_size=23, context=8, positions="none", bias=True, rank=8, scale=False,
                                **BANDS))
    tables = describe_bands(23, 8, **BANDS)
    head = fresh(AdaptiveTiedHead(width=12, rank=8, tables=tables, projection=projection))
    x, tied = torch.randn(2, 5, 12), dict(made.named_parameters())
    assert all(tied[name].shape == shape for name, shape in head.tied_shapes().items())
    h = x @ made.project.weight if projection == "shared" else head.project(x)
    rows = torch.cat([tied[f"bands.words{i}.weight"] @ tied[f"bands.map{i}.weight"].T for i in range(3)])
    logits = h @ rows.T
    sizes = torch.tensor([4.0, 15.0]).log()
    parts = [logits[..., start:end] for start, end in ENDS]
    assert torch.allclose(head(x, None, tied).exp(), full_softmax(parts[0], head.bands(h) + sizes, parts[1:]),
                          atol=1e-6)


def space(embedding, head):
    return space_from_data({
        "schema_version": 1, "name": "adaptive", "family": "lm", "vocab_size": 23, "context": 8, "width": 16,
        "embedding": embedding, "head": head,
        "decoder": {"slots": 1, "layers": {"only": {"mixer": {"attention": {"n_heads": 2}},
                                                    "ffn": {"ffn": {"inner": "1x"}}}}}}, "adaptive")


def test_a_tied_head_is_what_the_embedding_allows():
    found = space({"lookup": {"rank": 8}, "adaptive_lookup": {"rank": 8, **BANDS},
                   "hashed_lookup": {"rank": 8, "buckets": 5}}, {"tied": {}})
    kinds = {arch.embedding.kind: arch.head.kind for arch in (found.decode({"embedding.kind": kind})
             for kind in ("lookup", "adaptive_lookup", "hashed_lookup"))}
    assert kinds == {"lookup": "tied", "adaptive_lookup": "adaptive_tied", "hashed_lookup": "linear"}
    assert found.size() == 3
    for kind in kinds:
        arch = found.decode({"embedding.kind": kind})
        assert found.decode(found.encode(arch)) == arch and arch in found


def test_a_model_writes_with_log_probabilities():
    arch = space({"adaptive_lookup": {"rank": 8, **BANDS}}, {"tied": {}}).decode({})
    model = Transformer(arch, seed=0).eval()
    tokens = torch.tensor([[1, 2, 9, 20]])
    assert torch.allclose(model(tokens).exp().sum(-1), torch.ones(1, 4), atol=1e-5)
    best = model(tokens)[:, -1].argmax(-1)
    assert model.generate(tokens, 1)[0, -1] == best
