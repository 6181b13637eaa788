"""The sparse feed-forward against a loop over tokens and blocks."""

import pytest
import torch

from supernet.blocks.sparse_ffn import SparseFeedForward
from supernet.build import fresh
from supernet.call import Call


def module(bias):
    torch.manual_seed(0)
    made = fresh(SparseFeedForward(width=8, bias=bias, inner=12, block=4, controller=3)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return made


def by_hand(made, token):
    """The channel of every block with the highest score, and no other."""
    scores = made.score.weight @ made.narrow.weight @ token
    y = torch.zeros(8) if made.shift is None else made.shift.clone()
    for first in range(0, 12, 4):
        kept = first + int(scores[first : first + 4].argmax())
        bias = 0 if made.up.bias is None else made.up.bias[kept]
        y += (made.up.weight[kept] @ token + bias).relu() * made.down[kept]
    return y


@torch.no_grad()
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_a_loop_over_tokens_and_blocks(bias):
    made, x = module(bias), torch.randn(2, 5, 8)
    expected = torch.stack([by_hand(made, token) for token in x.flatten(0, 1)]).view(2, 5, 8)
    assert torch.allclose(made(x, Call()), expected, atol=1e-6)
    scores = made.score(made.narrow(x)).unflatten(-1, (-1, 4))
    gathered = made._gathered(x, scores)
    assert torch.allclose(gathered if made.shift is None else gathered + made.shift, expected, atol=1e-6)


def test_training_teaches_the_controller_and_keeps_about_one_channel_a_block():
    made, x = module(True).train(), torch.randn(4, 50, 8)
    made(x, Call()).square().sum().backward()
    assert made.score.weight.grad.any() and made.narrow.weight.grad.any()
    kept = made._drawn(made.score(made.narrow(x)).unflatten(-1, (-1, 4)))
    assert torch.allclose(kept.sum(-1), torch.ones(4, 50, 3), atol=1e-5)
    hard = (kept.detach() == kept.detach().round()).all(-1).all(-1).float().mean()
    assert 0.2 < hard < 0.75  # three tokens in ten by lot, and some whose softmax is as sharp
