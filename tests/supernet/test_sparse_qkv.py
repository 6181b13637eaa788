"""The multiplicative layer and the maps of modules against sums written out."""

import torch

from supernet.blocks.sparse_qkv import ModuleMap, Multiplicative, SparseQkvAttention
from supernet.build import fresh


@torch.no_grad()
def test_the_multiplicative_layer_is_its_sum():
    made, x = fresh(Multiplicative(12, 3)), torch.randn(2, 5, 12)
    expected = torch.einsum("bni,si,im->bnsm", x, made.gates, made.mix).flatten(-2)
    assert torch.allclose(made(x), expected, atol=1e-5)


@torch.no_grad()
def test_modules_do_not_mix():
    made, x = fresh(ModuleMap(3, 4, bias=True)), torch.randn(2, 5, 12)
    blocks = torch.block_diag(*made.weight)
    assert torch.allclose(made(x), x @ blocks + made.bias.flatten(), atol=1e-5)


def test_it_has_the_parameters_of_the_formula():
    made = SparseQkvAttention(width=12, causal=False, positions="none", context=8, bias=False, n_heads=2, modules=3)
    prepared, maps, out = 3 * 12 + 12 * 4, 3 * 12 * 12 // 3, 12 * 12
    assert sum(tensor.numel() for tensor in made.parameters()) == prepared + maps + out
