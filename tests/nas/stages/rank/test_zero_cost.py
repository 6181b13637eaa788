"""Predictors that need one batch and no training."""

import math

import pytest
import torch

from nas.stages.rank.zero_cost import zero_cost
from supernet import Transformer
from tests.supernet.toys import LM, Rows


def test_both_are_finite_positive_and_a_function_of_the_seed():
    batch = Rows().batch(0, 4, 0)
    one, again, other = (zero_cost(LM.largest(), batch, seed) for seed in (0, 0, 1))
    assert one == again != other
    assert all(math.isfinite(value) and value > 0 for value in one.values())


def test_the_gradient_norm_is_that_of_the_mean_loss():
    batch, arch = Rows().batch(0, 4, 0), LM.smallest()
    model = Transformer(arch, seed=0).double().eval()
    torch.nn.functional.cross_entropy(model(batch.tokens).flatten(0, 1), batch.labels.flatten()).backward()
    squares = sum(float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None)
    assert zero_cost(arch, batch, 0)["grad_norm"] == pytest.approx(squares**0.5)
