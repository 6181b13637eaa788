"""The product-key memory against a search through all its keys."""

import pytest
import torch

from supernet.blocks.pkm import ProductKeyMemory
from supernet.build import fresh
from supernet.call import Call


@torch.no_grad()
@pytest.mark.parametrize(("keys", "heads", "top_k"), [(5, 2, 3), (4, 1, 4), (3, 3, 1)])
def test_it_finds_what_an_exhaustive_search_finds(keys, heads, top_k):
    torch.manual_seed(0)
    made = fresh(ProductKeyMemory(width=8, bias=True, keys=keys, memory_heads=heads, top_k=top_k, key_dim=6)).eval()
    x = torch.randn(2, 7, 8)
    expected = torch.zeros_like(x)
    for head, half_keys in enumerate(made.keys):
        query = made.queries(x)[..., head * 6 : head * 6 + 6]
        whole = torch.stack([torch.cat([half_keys[0][:, i], half_keys[1][:, j]])
                             for i in range(keys) for j in range(keys)])
        scores = query @ whole.T
        best = scores.topk(top_k)
        hidden = torch.full_like(scores, -torch.inf).scatter(-1, best.indices, best.values)
        expected += hidden.softmax(-1) @ made.values.weight
    assert torch.allclose(made(x, Call()), expected, atol=1e-5)
