"""Windowed attention is full attention with everything outside the window masked."""

import pytest
import torch

from supernet.call import Call
from tests.supernet.blocks import behind, block, masked_attention, tokens


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("reach", [1, 5, 40])
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_attention_with_a_banded_mask(causal, reach, positions):
    mixer, x = block("local_attention", facts={"causal": causal, "positions": positions}, n_heads=2, head_dim=8,
                     reach=reach, n_global=0), tokens(77)
    mask = torch.arange(77) < torch.tensor([[77], [50]])
    far = behind(77)
    band = (far <= reach) & (far >= (0 if causal else -reach))
    expected = mixer.merged(masked_attention(*mixer.project(x), (band & mask[:, None, None]) | (far == 0)))
    assert torch.allclose(mixer(x, Call(mask=mask)), expected, atol=1e-5)


@pytest.mark.parametrize("n", [2, 60])
def test_global_tokens_see_all_and_are_seen_by_all(n):
    mixer, x = block("local_attention", n_heads=2, head_dim=8, reach=3, n_global=4), tokens(n)
    mask = torch.arange(n) < torch.tensor([[n], [n - n // 3]])
    first = torch.arange(n) < 4
    allowed = ((behind(n).abs() <= 3) | first) & mask[:, None, None] | (behind(n) == 0)
    near = masked_attention(*mixer.project(x), allowed)
    far = masked_attention(*(mixer._heads(mixer.far[name](x), 2) for name in "qkv"), mask[:, None, None])
    expected = mixer.merged(torch.where(first[:, None], far, near))
    assert torch.allclose(mixer(x, Call(mask=mask))[mask], expected[mask], atol=1e-5)
