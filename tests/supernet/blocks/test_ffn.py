"""Every activation against its formula, plain and gated."""

import math

import pytest
import torch

from supernet.blocks.ffn import ACTIVATIONS
from supernet.call import Call
from tests.supernet.blocks import block, tokens

FORMULAS = {
    "relu": lambda z: max(z, 0.0),
    "gelu": lambda z: z * (1 + math.erf(z / 2**0.5)) / 2,
    "gelu_tanh": lambda z: z * (1 + math.tanh((2 / math.pi) ** 0.5 * (z + 0.044715 * z**3))) / 2,
    "silu": lambda z: z / (1 + math.exp(-z)),
    "elu": lambda z: z if z > 0 else math.exp(z) - 1,
    "selu": lambda z: 1.0507009873554805 * (z if z > 0 else 1.6732632423543772 * (math.exp(z) - 1)),
    "softplus": lambda z: math.log(1 + math.exp(z)),
    "sigmoid": lambda z: 1 / (1 + math.exp(-z)),
    "linear": lambda z: z,
}


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_it_is_the_formula_number_by_number(name, gated):
    if name == "linear" and not gated:
        pytest.skip("two linear maps in a row")
    ffn, x = block("ffn", role="ffn", inner=12, activation=name, gated=gated), tokens(3) * 2
    inner = ffn.up(x).apply_(FORMULAS[name])
    expected = ffn.down(inner * ffn.gate(x) if gated else inner)
    assert torch.allclose(ffn(x, Call()), expected, atol=1e-5)
