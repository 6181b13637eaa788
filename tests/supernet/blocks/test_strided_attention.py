"""Strided attention is full attention with one mask for near heads and another for far ones."""

import pytest
import torch

from supernet.call import Call
from tests.supernet.blocks import behind, block, masked_attention, tokens


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_attention_with_a_mask_for_each_half_of_the_heads(causal, padded):
    mixer, x = block("strided_attention", facts={"causal": causal}, n_heads=4, head_dim=8, stride=7), tokens(60)
    mask, far = torch.arange(60) < torch.tensor([[60], [41 if padded else 60]]), behind(60)
    past = (far >= 0) | (not causal)
    seen = torch.stack([(far.abs() <= 7) & past, (far % 7 == 0) & past] * 2)
    expected = mixer.merged(masked_attention(*mixer.project(x), (seen & mask[:, None, None]) | (far == 0)))
    assert torch.allclose(mixer(x, Call(mask=mask if padded else None)), expected, atol=1e-5)
