"""Entmax against a root finder, its known special cases, and differences for its gradient."""

import pytest
import torch
from scipy.optimize import brentq

from supernet.blocks.entmax_attention import entmax
from supernet.call import Call
from tests.supernet.blocks import block, tokens


def slow(z, alpha):
    """One row by scipy's root finder."""
    z = [(alpha - 1) * value for value in z]

    def weights(t):
        return [max(value - t, 0) ** (1 / (alpha - 1)) for value in z]

    t = brentq(lambda t: sum(weights(t)) - 1, max(z) - 1, max(z), xtol=1e-14)
    return torch.tensor(weights(t))


@pytest.mark.parametrize("alpha", [1.02, 1.2, 1.5, 1.9, 2.0])
def test_weights_are_those_of_a_root_finder(alpha):
    z = torch.randn(5, 13, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2
    found = entmax(z, torch.tensor(alpha - 1, dtype=torch.float64))
    assert torch.allclose(found, torch.stack([slow(row.tolist(), alpha) for row in z]).double(), atol=1e-6)
    single = entmax(z.float(), torch.tensor(alpha - 1))
    assert torch.allclose(single.double(), found, atol=1e-5)


def test_two_scores_under_sparsemax_are_a_clipped_line():
    z = torch.tensor([[0.3, 0.0], [2.0, 0.0]])
    assert torch.allclose(entmax(z, torch.tensor(1.0)), torch.tensor([[0.65, 0.35], [1.0, 0.0]]), atol=1e-6)


def test_the_gradient_is_that_of_differences():
    z = torch.randn(3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    excess = torch.full((3, 1), 0.4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(entmax, (z, excess), eps=1e-6, atol=1e-4)


def test_it_attends_by_these_weights():
    mixer, x = block("entmax_attention", facts={"causal": True}, n_heads=2, head_dim=8), tokens(6)
    q, k, v = mixer.project(x)
    scores, alpha = q @ k.transpose(-2, -1) * 8**-0.5, 1 + mixer.alpha.sigmoid()
    weights = torch.zeros(2, 2, 6, 6)
    for b in range(2):
        for h in range(2):
            for i in range(6):
                weights[b, h, i, : i + 1] = slow(scores[b, h, i, : i + 1].tolist(), float(alpha[h]))
    assert torch.allclose(mixer(x, Call()), mixer.merged(weights @ v), atol=1e-5)
