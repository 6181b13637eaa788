"""The random features estimate the kernel of softmax attention."""

import torch

from supernet.call import Call
from supernet.layout import entries, initialise
from tests.supernet.blocks import block, masked_attention, tokens


def drawn(mixer, seed):
    """The same block with other random directions."""
    (entry,) = (each for each in entries(mixer) if each.name == "directions")
    initialise(mixer.directions, entry, torch.Generator().manual_seed(seed))
    return mixer


def test_the_mean_over_directions_is_the_exact_kernel():
    mixer = block("performer", n_heads=1, head_dim=8, n_features=2048)
    q, k = (tokens(5, 8, seed)[:1, None] * 0.5 for seed in (1, 2))
    kernels = torch.stack([drawn(mixer, seed).log_features(q).exp() @ mixer.log_features(k).exp().transpose(-2, -1)
                           for seed in range(40)]) / 2048
    exact = (q @ k.transpose(-2, -1) * 8**-0.5).exp()
    assert torch.allclose(kernels.mean(dim=0), exact, rtol=0.04)


def test_directions_are_orthogonal_and_as_long_as_normal_ones():
    directions = drawn(block("performer", n_heads=3, head_dim=16, n_features=24), 0).directions
    products = directions[:, :16] @ directions[:, :16].transpose(-2, -1)
    assert torch.allclose(products, products.diagonal(dim1=1, dim2=2).diag_embed(), atol=1e-4)
    assert 3 < directions.norm(dim=-1).mean() < 5


def test_many_features_give_nearly_the_attention():
    mixer, x = block("performer", n_heads=2, head_dim=8, n_features=4096), tokens(20) * 0.3
    expected = mixer.merged(masked_attention(*mixer.project(x), torch.ones(20, 20, dtype=torch.bool)))
    assert (mixer(x, Call()) - expected).norm() < 0.1 * expected.norm()
