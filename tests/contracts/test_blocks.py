"""The suite of blocks over every kind that is installed."""

import pytest
import torch

from nas.core.macs import unit_macs
from nas.testing import BlockContract, suites
from nas.testing.examples import FACTS, all_kinds
from search_spaces import InputError
from search_spaces import registry as kinds
from search_spaces.block import BlockConfig
from search_spaces.units import make_unit

globals().update(suites(BlockContract, *all_kinds()))


def test_an_uncounted_operator_is_an_error(monkeypatch):
    class AiryMixer(torch.nn.Module):
        def __init__(self, *, width):
            super().__init__()

        def forward(self, x, call):
            return torch.special.airy_ai(x)

    from search_spaces.kind import Kind

    monkeypatch.setitem(kinds.registry(), "airy", Kind("airy", "mixer", AiryMixer, facts=("width",), causal=False))
    unit = make_unit("mixer", BlockConfig("airy"), FACTS)
    with pytest.raises(InputError, match="airy.*aten::special_airy_ai.*has no MAC count"):
        unit_macs(unit, 8)
