"""The gated convolution against a loop over tokens and taps."""

import pytest
import torch

from supernet.call import Call
from tests.supernet.blocks import block, tokens


@pytest.mark.parametrize("causal", [False, True])
def test_it_is_a_loop_over_tokens_and_taps(causal):
    mixer, x = block("short_conv", facts={"causal": causal}, kernel=5), tokens(12)
    b, c, z = mixer.enter(x).chunk(3, dim=-1)
    y = torch.zeros_like(x)
    for i in range(12):
        for tap in range(5):
            j = i + tap - (4 if causal else 2)
            if 0 <= j < 12:
                y[:, i] += mixer.taps[:, tap] * b[:, j] * z[:, j]
    assert torch.allclose(mixer(x, Call()), mixer.leave(c * y), atol=1e-5)
