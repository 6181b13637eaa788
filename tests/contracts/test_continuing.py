"""What every block promises that may stand in a decoder: a sequence read in pieces gives what the whole gives."""

import dataclasses
import inspect

import pytest
import torch

from nas.testing.examples import FACTS, all_kinds, hidden, modules
from search_spaces import registry as kinds
from search_spaces.units import SUBLAYERS
from supernet.cache import OneUnit, state_shapes
from supernet.call import Call, State

PIECES = (3, 1, 1, 2, 1, 1)
PAST, SOURCE = 16, 5
CAUSAL = [name for name in all_kinds() if kinds.get(name).role in SUBLAYERS and kinds.get(name).causal]


def facts(positions="learned"):
    return dataclasses.replace(FACTS, causal=True, positions=positions, context=32)


def continuing(name, positions="learned"):
    """(unit, module) of several configurations. A block of ours can always go on; another's need not."""
    for unit, module in modules(name, facts(positions)):
        if not hasattr(module.block, "state_shapes") and unit.role != "ffn":
            assert not type(module.block).__module__.startswith("supernet.")
            pytest.skip(f"{name} declares no state_shapes")
        yield unit, module


def zeros(unit, past):
    return tuple(torch.zeros(shape) for shape in state_shapes(unit, 2, past))


@torch.no_grad()
@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("name", [name for name in CAUSAL if kinds.get(name).role == "mixer"])
def test_padding_before_a_sequence_changes_nothing(name, positions):
    n, before = sum(PIECES), 4
    mask = torch.arange(before + n).expand(2, -1) >= torch.tensor([[0], [before]])
    position = (mask.long().cumsum(-1) - 1).clamp(min=0)
    for unit, module in continuing(name, positions):
        x, state, done, found = hidden(before + n), State(zeros(unit, 0)), 0, []
        expected = module(x[1:, before:], Call())
        whole = module(x, Call(mask=mask, position=position))
        for piece in (before, *PIECES):
            end = done + piece
            found.append(module(x[:, done:end], Call(mask=mask[:, :end], position=position[:, done:end], state=state)))
            done = end
        assert torch.allclose(whole[1:, before:], expected, atol=1e-5)
        assert torch.allclose(torch.cat(found, dim=1)[1:, before:], expected, atol=1e-5)
        assert torch.allclose(torch.cat(found, dim=1)[:1], module(x[:1], Call()), atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
@pytest.mark.parametrize("name", [name for name in all_kinds("embedding") if kinds.get(name).causal])
def test_an_embedding_reads_on_from_any_position(name, positions):
    tokens = torch.randint(0, FACTS.vocab_size, (2, 9))
    for _, module in modules(name, facts(positions)):
        if "position" not in inspect.signature(module.forward).parameters:
            assert not type(module).__module__.startswith("supernet.")
            pytest.skip(f"{name} takes no position")
        for target in (False, True):
            whole = module(tokens, None, target)
            assert torch.allclose(whole[:, 6:], module(tokens[:, 6:], None, target, 6), atol=1e-5)
            position = torch.arange(6, 9).expand(2, -1)
            assert torch.allclose(whole[:, 6:], module(tokens[:, 6:], None, target, position), atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", CAUSAL)
def test_one_token_can_be_exported(name):
    for unit, module in list(continuing(name, "rotary"))[:3]:
        x, state = hidden(1), tuple(torch.randn(shape) for shape in state_shapes(unit, 2, PAST))
        one = OneUnit(module, PAST)
        expected = one(x, *state)
        exported = torch.export.export(one, (x, *state), strict=False).module()(x, *state)
        assert len(expected) == len(exported) == 1 + len(state)
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(expected, exported))
