"""Fourier mixing against products with the matrices of cosines and sines, and its count."""

import math

import torch

from nas.core.macs import unit_macs
from search_spaces.block import BlockConfig
from search_spaces.units import make_unit
from supernet.call import Call
from tests.contracts.examples import FACTS
from tests.supernet.blocks import block, tokens


def angles(n):
    return 2 * math.pi * torch.arange(n)[:, None] * torch.arange(n) / n


def test_it_is_a_product_with_cosines_and_sines():
    x, rows, columns = tokens(11), angles(11), angles(32)
    expected = (rows.cos() @ x @ columns.cos() - rows.sin() @ x @ columns.sin()) / (11 * 32) ** 0.5
    assert torch.allclose(block("fnet")(x, Call()), expected, atol=1e-5)


def test_butterflies_are_counted():
    unit = make_unit("mixer", BlockConfig("fnet"), FACTS)
    assert unit_macs(unit, 16) == 2 * 16 * 32 * (4 + 5)
