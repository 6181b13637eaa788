"""Synthetic scores against formulas for a single query."""

import pytest
import torch

from supernet.call import Call
from tests.supernet.blocks import block, tokens


def scores_of(mixer, name, x, head, i):
    """Scores of token i (width) for all positions of the context, head by head."""
    part = x[head * 16 : (head + 1) * 16]
    if name in ("random", "fixed"):
        return mixer.table[head, i]
    if name == "factorised_random":
        return mixer.columns[head] @ mixer.rows[head, i]
    if name == "dense":
        return (part @ mixer.hidden[head]).relu() @ mixer.out[head]
    return torch.kron(part @ mixer.coarse[head], part @ mixer.fine[head])


@pytest.mark.parametrize("mix", [False, True])
@pytest.mark.parametrize("name", ["dense", "random", "fixed", "factorised_dense", "factorised_random",
                                  "random_dense"])
@pytest.mark.parametrize("causal", [False, True])
def test_weights_are_the_softmax_of_the_scores(name, causal, mix):
    mixer = block("synthesizer", facts={"causal": causal, "context": 24}, n_heads=2, scores=name,
                  rank=5 if name.startswith("f") and name != "fixed" else 1, mix=mix)
    x, real = tokens(10), 7
    v = mixer.v(x).view(2, 10, 2, 16)
    y = torch.zeros(2, 10, 2, 16)
    for b in range(2):
        for head in range(2):
            for i in range(10):
                seen = min(i + 1, real) if causal else real
                terms = [scores_of(mixer, source, x[b, i], head, i)[:seen]
                         for source in (["random", "dense"] if name == "random_dense" else [name])]
                if mix:
                    q, k = (map(x[b]).view(10, 2, 16)[:, head] for map in (mixer.q, mixer.k))
                    terms.append(k[:seen] @ q[i] / 4)
                shares = mixer.mixture.softmax(dim=0) if len(terms) > 1 else torch.ones(1)
                scores = sum(share * term for share, term in zip(shares, terms, strict=True))
                y[b, i, head] = scores.softmax(dim=0) @ v[b, :seen, head]
    mask = torch.arange(10).expand(2, -1) < real
    assert torch.allclose(mixer(x, Call(mask=mask)), mixer.o(y.flatten(2)), atol=1e-5)


def test_a_fixed_table_is_no_parameter():
    count = {name: sum(each.numel() for each in block("synthesizer", n_heads=2, scores=name, rank=1,
                                                      mix=False).parameters()) for name in ("random", "fixed")}
    assert count["random"] - count["fixed"] == 2 * 128 * 128
