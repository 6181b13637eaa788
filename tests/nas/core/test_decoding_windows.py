"""Timing of decoding units that remember a few tokens, or the keys and values of another layer."""

import pytest
import torch

from nas.core.timing.decoding import ExportedUnits
from search_spaces.block import BlockConfig
from search_spaces.kind import Facts
from search_spaces.units import Unit, make_unit
from supernet.build import build_unit, fresh

FACTS = Facts(width=16, context=32, vocab_size=11, n_classes=0, n_types=0, causal=True, positions="none",
              norm="layernorm", placement="pre", bias=True, first=False)
HEADS = {"n_heads": 2, "head_dim": 4}
BLOCKS = {"local_attention": {"reach": 5, "n_global": 0}, "strided_attention": {"stride": 3},
          "shared_attention": {"n_kv_heads": 2, "group": 0}, "attention": {"n_kv_heads": 2}}


def units(kind: str, window: int | None) -> ExportedUnits:
    unit: Unit = make_unit("mixer", BlockConfig.of(kind, {**HEADS, **BLOCKS[kind]}), FACTS)
    return ExportedUnits(unit, [fresh(build_unit(unit)) for _ in range(2)], window).eval()


@pytest.mark.parametrize("kind", BLOCKS)
def test_states_of_a_fixed_size_keep_it(kind: str) -> None:
    step = units(kind, 12)
    inputs = step.example(1, 1, 12)
    y, *states = step(*inputs)
    assert y.shape == (1, 1, 16)
    assert [each.shape for each in states] == [each.shape for each in inputs[3:]]


@pytest.mark.parametrize("kind", BLOCKS)
def test_open_sizes_are_those_of_each_state(kind: str) -> None:
    step = units(kind, None)
    given = step.traced()
    program = torch.export.export(step, given, dynamic_shapes=step.open_axes(),
                                  prefer_deferred_runtime_asserts_over_guards=True).module()
    longer = step.example(1, 1, 20)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(program(*longer), step(*longer)))
