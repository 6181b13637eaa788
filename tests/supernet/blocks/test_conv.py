"""Lightweight and dynamic convolution, alone and beside attention, against loops over tokens, heads and taps."""

import pytest
import torch

from supernet.call import Call
from tests.supernet.blocks import behind, block, masked_attention, tokens


def convolved(branch, x, real):
    """What a branch makes of (batch, n, channels); tokens from `real` on are padding."""
    h = branch.enter(x)
    if branch.glu:
        a, b = h.chunk(2, dim=-1)
        h = a * b.sigmoid()
    h, per_head = h * (torch.arange(x.shape[1]) < real)[:, None], branch.channels // branch.conv_heads
    y = torch.zeros_like(h)
    for b in range(len(x)):
        for i in range(x.shape[1]):
            logits = branch.kernels(h[b, i]).view(branch.conv_heads, -1) if branch.dynamic else branch.weight
            for channel in range(branch.channels):
                taps = logits[channel // per_head].softmax(dim=0)
                for tap in range(branch.kernel):
                    j = i + tap - (branch.kernel - 1 if branch.causal else branch.kernel // 2)
                    if 0 <= j < x.shape[1]:
                        y[b, i, channel] += taps[tap] * h[b, j, channel]
    return branch.leave(y)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("conv", ["light", "dynamic"])
@pytest.mark.parametrize("glu", [False, True])
def test_it_is_a_loop_over_tokens_heads_and_taps(causal, conv, glu):
    mixer = block("conv", facts={"causal": causal}, kernel=5, conv_heads=4, conv=conv, glu=glu)
    x = tokens(8)
    expected = convolved(mixer.convolve, x, 6)
    found = mixer(x, Call(mask=torch.arange(8).expand(2, -1) < 6))
    assert torch.allclose(found[:, :6], expected[:, :6], atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_some_channels_attend_and_the_others_are_convolved(causal):
    mixer = block("lsra", facts={"causal": causal}, ratio=0.25, n_heads=2, kernel=3, conv_heads=2, conv="dynamic",
                  glu=True)
    x = tokens(7)
    q, k, v = (linear(x[..., :8]).view(2, 7, 2, 4).transpose(1, 2)
               for linear in (mixer.attend.q, mixer.attend.k, mixer.attend.v))
    attended = masked_attention(q, k, v, (behind(7) >= 0) | (not causal)).transpose(1, 2).flatten(2)
    expected = torch.cat([mixer.attend.o(attended), convolved(mixer.convolve, x[..., 8:], 7)], dim=-1)
    assert torch.allclose(mixer(x, Call()), expected, atol=1e-5)
