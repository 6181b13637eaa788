"""Attention within buckets against full attention, and against a loop over tokens."""

import pytest
import torch
import torch.nn.functional as F

from supernet.call import Call
from tests.supernet.blocks import behind, block, tokens


@pytest.mark.parametrize("causal", [False, True])
def test_one_bucket_is_full_attention_with_shared_queries_and_keys(causal):
    mixer, x = block("lsh_attention", facts={"causal": causal}, n_heads=2, head_dim=8, n_buckets=4, chunk=40,
                     rounds=2), tokens(30)
    mixer.directions.zero_()
    q, v = mixer.queries(x), mixer._heads(mixer.v(x), 2)
    scores = q @ F.normalize(q, dim=-1).transpose(-2, -1) * 8**-0.5
    scores = scores.masked_fill(behind(30) == 0, -1e4)
    scores = scores.masked_fill((behind(30) < 0) & causal, -torch.inf)
    assert torch.allclose(mixer(x, Call()), mixer.merged(scores.softmax(dim=-1) @ v), atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_a_token_sees_the_nearest_tokens_of_its_bucket(causal):
    n, real, rounds, chunk = 40, 33, 2, 3
    mixer, x = block("lsh_attention", facts={"causal": causal}, n_heads=1, head_dim=8, n_buckets=4, chunk=chunk,
                     rounds=rounds), tokens(n)
    q, v = mixer.queries(x)[:, 0], mixer.v(x)
    k = F.normalize(q, dim=-1)
    y = torch.zeros(2, real, 8)
    for b in range(2):
        for i in range(real):
            parts, logs = [], []
            for r in range(rounds):
                projected = q[b] @ mixer.directions[0, r]
                bucket = torch.cat([projected, -projected], dim=-1).argmax(dim=-1)
                same = [j for j in range(real) if bucket[j] == bucket[i]]
                seen = [j for j in same if j < i][-chunk:] + ([] if causal else [j for j in same if j > i][:chunk])
                scores = torch.stack([q[b, i] @ k[b, j] / 8**0.5 for j in seen] + [torch.tensor(-1e4)])
                parts.append(scores.softmax(dim=0) @ v[b, [*seen, i]])
                logs.append(scores.logsumexp(dim=0))
            y[b, i] = torch.stack(logs).softmax(dim=0) @ torch.stack(parts)
    found = mixer(x, Call(mask=torch.arange(n).expand(2, -1) < real))[:, :real]
    assert torch.allclose(found, mixer.o(y), atol=1e-5)
