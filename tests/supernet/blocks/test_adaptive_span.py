"""Learned spans are a soft mask on the weights of full attention."""

import pytest
import torch

from supernet.call import Call
from tests.supernet.blocks import behind, block, tokens


@pytest.mark.parametrize("causal", [False, True])
def test_weights_fade_with_the_distance(causal):
    mixer, x = block("adaptive_span", facts={"causal": causal}, n_heads=2, head_dim=8, max_span=20, ramp=4), tokens(70)
    mixer.span.copy_(torch.tensor([-1.0, 3.0]))
    mask, far = torch.arange(70) < torch.tensor([[70], [50]]), behind(70)
    q, k, v = mixer.project(x)
    seen = (far.abs() <= 20) & ((far >= 0) | (not causal)) & mask[:, None, None] | (far == 0)
    weights = (q @ k.transpose(-2, -1) * 8**-0.5).exp() * seen
    weights = weights * ((4 + 20 * mixer.span.sigmoid()[:, None, None] - far.abs()) / 4).clamp(0, 1)
    expected = mixer.merged(weights / weights.sum(dim=-1, keepdim=True) @ v)
    assert torch.allclose(mixer(x, Call(mask=mask)), expected, atol=1e-5)


def test_long_spans_cost_more():
    mixer, losses = block("adaptive_span", n_heads=2, head_dim=8, max_span=20, ramp=4), []
    for value in (-2.0, 2.0):
        mixer.span.fill_(value)
        mixer(tokens(5), Call(losses=losses))
    assert 0 < losses[0] < losses[1]
