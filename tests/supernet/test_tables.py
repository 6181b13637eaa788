"""Tables that are computed, never stored."""

import subprocess
import sys

import pytest
import torch

from search_spaces import load_space
from search_spaces.units import plan
from supernet.build import build_on_meta, build_unit
from supernet.layers.tables import Table

SPACES = ("lm-small", "hat-like", "delight-lm", "encoder-small")


@pytest.mark.parametrize("name", SPACES)
def test_a_table_is_of_the_same_shape_where_nothing_is_computed(name: str) -> None:
    seen = 0
    for unit in {step.unit for step in plan(load_space(name).largest())}:
        pairs = zip(build_unit(unit).modules(), build_on_meta(unit).modules(), strict=True)
        for real, bare in ((a, b) for a, b in pairs if isinstance(a, Table)):
            assert bare.values.is_meta and bare.values.shape == real.values.shape
            assert torch.equal(bare.to_empty(device="cpu").values, real.values)
            seen += 1
    assert seen == 0 if name == "encoder-small" else seen > 0


def test_counting_does_not_load_the_compiler() -> None:
    """Which takes seconds, and comes with the first computation on the meta device."""
    script = ("import sys; from nas.core.costs import count_params; from search_spaces import load_space\n"
              "count_params(load_space('lm-small').largest()); count_params(load_space('hat-like').largest())\n"
              "print('torch._dynamo' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
