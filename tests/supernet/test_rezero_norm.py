"""ReZero with norms: the identity at first, and the norm before the block; the contract suite covers the rest."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from supernet.residuals.rezero_norm import ReZeroNorm


def test_it_adds_a_share_of_what_the_block_makes_of_the_norm() -> None:
    residual, x = ReZeroNorm(nn.Identity(), width=6, norm="rmsnorm"), torch.randn(2, 5, 6)
    assert torch.equal(residual.add(x, torch.tanh), x)
    with torch.no_grad():
        residual.alpha.fill_(0.5), residual.norm.weight.copy_(torch.arange(6.0))
        expected = x + 0.5 * torch.tanh(F.rms_norm(x, (6,), torch.arange(6.0), residual.norm.eps))
        assert torch.allclose(residual.add(x, torch.tanh), expected)
