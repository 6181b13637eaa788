"""Fixed patterns against their matrices of weights."""

import torch

from supernet.call import Call
from tests.supernet.blocks import block, tokens


def matrix(which, n):
    """Weights (n, n) of a pattern; a row without any is the token itself."""
    i, j = torch.arange(n)[:, None], torch.arange(n)[None]
    start, end = (n - j) ** 3 + 0 * i, (j + 1) ** 3 + 0 * i
    weights = [j == i, j == i - 1, j == i + 1, end * (j <= i - 2), start * (j >= i + 2), end, start,
               (j == n - 1) + 0 * i][which].double()
    weights[weights.sum(dim=1) == 0] = torch.eye(n).double()[weights.sum(dim=1) == 0]
    return (weights / weights.sum(dim=1, keepdim=True)).float()


def test_every_head_gives_the_means_of_its_pattern():
    mixer, x, real = block("fixed_patterns", n_fixed=8, n_learned=1, head_dim=4), tokens(19), 13
    v = mixer.v(x).view(2, 19, 8, 4)[:, :real]
    y = torch.stack([torch.einsum("ij,bjd->bid", matrix(which, real), v[:, :, which]) for which in range(8)], dim=2)
    mask = torch.arange(19).expand(2, -1) < real
    expected = mixer.o(y.flatten(2)) + mixer.learned(x, x, mask, None)[:, :real]
    assert torch.allclose(mixer(x, Call(mask=mask))[:, :real], expected, atol=1e-5)
