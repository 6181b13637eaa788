"""The mean against a loop over tokens."""

import pytest
import torch

from supernet.call import Call
from tests.supernet.blocks import block, tokens


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_the_mean_of_the_tokens_that_may_be_seen(causal, gated):
    mixer, x = block("average", facts={"causal": causal}, gated=gated), tokens(9)
    real = 6
    seen = [range(min(i + 1, real) if causal else real) for i in range(9)]
    mean = torch.stack([torch.stack([x[:, j] for j in js]).mean(dim=0) for js in seen], dim=1)
    y = mean
    if gated:
        own, other = mixer.gates(torch.cat([x, mean], dim=-1)).sigmoid().chunk(2, dim=-1)
        y = own * x + other * mean
    assert torch.allclose(mixer(x, Call(mask=torch.arange(9).expand(2, -1) < real)), mixer.leave(y), atol=1e-5)
