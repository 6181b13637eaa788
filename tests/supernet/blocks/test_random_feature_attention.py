"""The random frequencies estimate the Gaussian kernel of unit vectors."""

import pytest
import torch
import torch.nn.functional as F

from supernet.call import Call
from tests.supernet.blocks import behind, block, tokens


@pytest.mark.parametrize("causal", [False, True])
def test_many_frequencies_give_the_gaussian_kernel(causal):
    mixer, x = block("random_feature_attention", facts={"causal": causal}, n_heads=2, head_dim=8,
                     n_frequencies=20_000), tokens(80)
    q, k, v = mixer.project(x)
    weights = (-torch.cdist(F.normalize(q, dim=-1), F.normalize(k, dim=-1)) ** 2 / 2).exp()
    assert torch.allclose(mixer.query_features(q) @ mixer.key_features(k).transpose(-2, -1), weights, atol=0.05)
    weights = weights * ((behind(80) >= 0) | (not causal))
    expected = mixer.merged(weights / weights.sum(dim=-1, keepdim=True) @ v)
    assert (mixer(x, Call()) - expected).norm() < 0.05 * expected.norm()
