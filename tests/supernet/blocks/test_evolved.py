"""The branches against a loop over tokens and taps."""

import pytest
import torch
import torch.nn.functional as F

from supernet.call import Call
from tests.supernet.blocks import block, tokens


@pytest.mark.parametrize("causal", [False, True])
def test_both_branches_are_loops_over_tokens_and_taps(causal):
    mixer, x = block("evolved", facts={"causal": causal}, inner=40, kernel=3, mix_kernel=5), tokens(11)
    wide = mixer.right.weight.view(16, 3, 32)
    hidden = F.relu(mixer.left(x))
    for i in range(11):
        near = [(tap, i + tap - (2 if causal else 1)) for tap in range(3)]
        right = mixer.right.bias + sum(x[:, j] @ wide[:, tap].T for tap, j in near if 0 <= j < 11)
        hidden[:, i, :16] += F.relu(right)
    hidden = F.layer_norm(hidden, (40,), mixer.norm.weight, mixer.norm.bias)
    y = torch.zeros_like(hidden)
    for i in range(11):
        for tap in range(5):
            j = i + tap - (4 if causal else 2)
            if 0 <= j < 11:
                y[:, i] += mixer.taps[:, tap] * hidden[:, j]
    assert torch.allclose(mixer(x, Call()), mixer.leave(y), atol=1e-5)
