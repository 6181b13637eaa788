"""Prefix sums give what the matrix of all weights gives."""

import pytest
import torch
import torch.nn.functional as F

from supernet.call import Call
from tests.supernet.blocks import behind, block, tokens


@pytest.mark.parametrize("causal", [False, True])
def test_it_is_attention_with_a_product_of_features_as_weights(causal):
    mixer, x = block("linear_attention", facts={"causal": causal}, n_heads=2, head_dim=8), tokens(150)
    mask = torch.arange(150) < torch.tensor([[150], [90]])
    q, k, v = mixer.project(x)
    weights = (F.elu(q) + 1) @ (F.elu(k) + 1).transpose(-2, -1)
    weights = weights * (mask[:, None, None] & ((behind(150) >= 0) | (not causal)))
    expected = mixer.merged(weights / weights.sum(dim=-1, keepdim=True) @ v)
    assert torch.allclose(mixer(x, Call(mask=mask)), expected, atol=1e-5)
