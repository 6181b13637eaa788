"""Dilated attention is full attention with a mask that has gaps."""

import pytest
import torch

from supernet.call import Call
from tests.supernet.blocks import behind, block, masked_attention, tokens


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("reach", "dilation"), [(2, 3), (20, 2)])
def test_it_is_attention_with_a_mask_that_has_gaps(causal, reach, dilation):
    mixer, x = block("dilated_attention", facts={"causal": causal}, n_heads=2, head_dim=8, reach=reach,
                     dilation=dilation), tokens(70)
    mask, far = torch.arange(70) < torch.tensor([[70], [50]]), behind(70)
    seen = (far.abs() <= reach * dilation) & (far % dilation == 0) & ((far >= 0) | (not causal))
    expected = mixer.merged(masked_attention(*mixer.project(x), (seen & mask[:, None, None]) | (far == 0)))
    assert torch.allclose(mixer(x, Call(mask=mask)), expected, atol=1e-5)
