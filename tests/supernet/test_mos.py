"""The mixture of softmaxes against a sum of probabilities."""

import pytest
import torch

from supernet.blocks.mos import MixtureOfSoftmaxes
from supernet.build import fresh


@torch.no_grad()
@pytest.mark.parametrize("tied", [False, True])
def test_it_is_the_sum_of_weighted_softmaxes(tied):
    head = fresh(MixtureOfSoftmaxes(width=8, rank=6, vocab_size=23, softmaxes=3, tied=tied))
    x, table = torch.randn(2, 5, 8), torch.randn(23, 6)
    words = table if tied else head.words.weight
    expected = torch.zeros(2, 5, 23)
    for k, share in enumerate((x @ head.prior.weight.T).softmax(-1).unbind(-1)):
        latent = torch.tanh(x @ head.latent.weight[6 * k : 6 * k + 6].T)
        expected += share[..., None] * (latent @ words.T).softmax(-1)
    assert torch.allclose(head(x, None, {"table.weight": table} if tied else {}).exp(), expected, atol=1e-6)
