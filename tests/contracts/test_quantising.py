"""Every block kind survives eight and four bits."""

from __future__ import annotations

import random

import pytest
import torch

from nas.testing.examples import all_kinds, space_data, space_facts, valid_configs
from search_spaces import Architecture, load_space
from search_spaces import registry as kinds
from search_spaces.files.loader import space_from_data
from supernet import Transformer
from supernet.batch import Batch
from supernet.compression.calibration import calibrate
from supernet.compression.quantised import DYNAMIC, STATIC, Quantisation, dequantised, quantise
from supernet.pretrained import load_model, save_model
from tests.parity import batch as inputs_of

SCHEMES = {DYNAMIC: 0.1, STATIC: 0.3, Quantisation(scheme="int4", group=32): 0.7}
"""How far logits may be off, relative to their size, with weights that are random."""
MOST_TOKENS = 0.5
"""The share of the tokens that this is about: rounding makes a few tokens choose another expert or bucket."""


def far_off(found: torch.Tensor, expected: torch.Tensor) -> float:
    errors = (found - expected).norm(dim=-1) / expected.norm(dim=-1).mean()
    return float(errors.flatten().quantile(MOST_TOKENS))


def check(arch: Architecture, folder, seed: int = 0) -> None:
    model = Transformer(arch, seed=seed).eval()
    with torch.no_grad():
        for each in model.parameters():
            each.add_(torch.randn(each.shape, generator=torch.Generator().manual_seed(seed)) * 0.02)
    inputs, keywords = inputs_of(arch, seed)
    with torch.no_grad():
        expected = model(*inputs, **keywords)
        for how, far in SCHEMES.items():
            made = quantise(model, how)
            if how == STATIC:
                target = inputs[1] if len(inputs) > 1 else None
                calibrate(made, [Batch(inputs[0], inputs[0], target, keywords["mask"])])
            found = made(*inputs, **keywords)
            assert far_off(found, expected) < far, how
            plain = dequantised(made)
            assert plain(*inputs, **keywords).isfinite().all()
            if how == DYNAMIC:
                again = quantise(plain, how)
                assert all(torch.equal(again.get_buffer(name), made.get_buffer(name)) for name in made.inputs)
        save_model(made, folder)
        assert torch.equal(load_model(folder)(*inputs, **keywords), found)


@pytest.mark.parametrize("name", [name for name in all_kinds() if kinds.get(name).role != "restore"])
def test_every_kind_survives(name, tmp_path):
    kind = kinds.get(name)
    for seed, config in enumerate(valid_configs(kind, *space_facts(kind), most=2)):
        check(space_from_data(space_data(kind, [config]), name).largest(), tmp_path, seed)


def test_layers_of_all_kinds_that_share_weights_survive(tmp_path):
    space, rng = load_space("lm-tiny"), random.Random(0)
    for seed in range(2):
        check(space.sample(rng), tmp_path, seed)
