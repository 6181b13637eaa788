"""Pooling between layers, against a slow reference, and what a shorter sequence costs."""

import math

import pytest
import torch

from hardware_profiles.profile import Conditions
from hardware_profiles.table import read_unit, unit_text
from nas.core.costs import unit_costs
from nas.core.timing.workloads import Workload
from search_spaces import Architecture, InputError, load_space
from search_spaces.units import plan
from supernet.blocks.pool import AveragePool, UpSample
from supernet.call import Call
from supernet.train.teaching import _check_lengths


@pytest.fixture(scope="module")
def pooled() -> Architecture:
    """Three layers; the second one pools."""
    space = load_space("encoder-pooled")
    genes = space.encode(space.largest()) | {"encoder.depth": 6, "encoder.1.transformer.between.kind": "pool"}
    return space.decode(genes)


@pytest.mark.parametrize("factor", [2, 3])
@pytest.mark.parametrize("n", [1, 6, 7])
def test_pooling_is_the_mean_of_real_tokens(factor, n):
    x, mask = torch.randn(2, n, 4), torch.rand(2, n) < 0.6
    y, call = AveragePool(factor=factor)(x, Call(mask=mask))
    for row in range(2):
        for i in range(math.ceil(n / factor)):
            window = range(i * factor, min((i + 1) * factor, n))
            real = [x[row, j] for j in window if mask[row, j]]
            assert bool(call.mask[row, i]) == bool(real)
            wanted = torch.stack(real).mean(0) if real else torch.zeros(4)
            assert torch.allclose(y[row, i], wanted, atol=1e-6)
    up, end = UpSample(factor=factor)(y, call)
    wanted = torch.stack([y[:, j // factor] for j in range(n)], dim=1) + x
    assert torch.allclose(up, wanted, atol=1e-6) and torch.equal(end.mask, mask)


def test_units_after_pooling_are_counted_and_timed_on_half_the_tokens(pooled):
    at = Conditions(batch=1, length=16, past=1)
    costs = {cost.step.path: cost for cost in unit_costs(pooled, seq_len=16)}
    before, after = costs["encoder.0.ffn"], costs["encoder.2.ffn"]
    assert before.step.unit.block == after.step.unit.block
    assert (before.step.unit.length_fraction, after.step.unit.length_fraction) == (1, 0.5)
    assert before.macs == 2 * after.macs > 0
    assert [Workload("prefill", cost.step.unit).build(at)[1][0].shape[1] for cost in (before, after)] == [16, 8]
    assert read_unit(unit_text(after.step.unit)) == after.step.unit != before.step.unit
    assert "share" not in unit_text(before.step.unit)  # tables of older versions stay readable
    assert [step.role for step in plan(pooled)][-3:] == ["restore", "norm", "head"]


def test_features_of_shorter_sequences_are_not_compared(pooled):
    with pytest.raises(InputError, match=r"pool \(encoder.1.between\) changes the number of tokens; allowed: logits"):
        _check_lengths(load_space("encoder-pooled").largest(), pooled)


def test_what_an_architecture_leaves_out_is_not_written(pooled):
    data = pooled.to_dict()
    data["encoder"][1]["between"] = {"kind": "skip", "slot": 1}
    with pytest.raises(InputError, match="encoder.1.between: skip is for space files"):
        Architecture.from_dict(data)
