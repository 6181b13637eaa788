"""Block-sparse attention is full attention with the other blocks masked."""

import pytest
import torch

from supernet.call import Call
from tests.supernet.blocks import behind, block, masked_attention, tokens


@pytest.mark.parametrize(("n_global", "n_random"), [(0, 0), (2, 0), (0, 3), (1, 2)])
def test_it_is_attention_with_a_mask_of_blocks(n_global, n_random):
    n, size = 45, 4
    mixer = block("bigbird", n_heads=2, head_dim=8, block=size, n_global=n_global, n_random=n_random)
    x, mask, count = tokens(n), torch.arange(n) < torch.tensor([[n], [31]]), -(-n // size)
    sees = torch.zeros(count, count, dtype=torch.bool)
    for i in range(count):
        sees[i, max(i - 1, 0) : i + 2] = True
        sees[i, :n_global] = True
        for r in range(n_random):
            share = float(torch.distributions.Normal(0, 1).cdf(mixer.drawn[i, r]))
            sees[i, min(int(share * count), count - 1)] = True
    sees[:n_global] = True
    wide = sees.repeat_interleave(size, 0).repeat_interleave(size, 1)[:n, :n]
    own = (behind(n) == 0) & (torch.arange(n)[:, None] >= n_global * size)
    expected = mixer.merged(masked_attention(*mixer.project(x), (wide & mask[:, None, None]) | own))
    assert torch.allclose(mixer(x, Call(mask=mask)), expected, atol=1e-5)
    if n_random > 1:
        assert len({tuple(row.tolist()) for row in sees}) > 3
