"""What is timed is what it says: copies of a unit, whole models, nothing."""

from __future__ import annotations

import random

import pytest
import torch

from hardware_profiles.profile import Conditions
from hardware_profiles.steps import phase_steps
from nas.core.costs import count
from nas.core.timing.workloads import Workload, described, greatest_token
from nas.stages.profile.choice import draw_models, n_ends, spread_order, units_of
from nas.stages.profile.work import unit_works, work_of
from search_spaces import InputError, load_space
from supernet import Transformer

AT = Conditions(batch=2, length=12, past=6)
SPACES = ("lm-tiny", "encoder-small", "seq2seq-small")


def phases(name: str) -> tuple[str, ...]:
    return ("prefill",) if name == "encoder-small" else ("prefill", "decode")


CASES = [(name, phase) for name in SPACES for phase in phases(name)]


@pytest.mark.parametrize(("name", "phase"), CASES)
def test_one_unit_of_every_kind_runs_in_copies(name: str, phase: str) -> None:
    kinds = {(unit.role, unit.block.kind): unit for unit in units_of(load_space(name), phase)}
    for unit in kinds.values():
        one, three = (Workload(phase, unit, copies).build(AT) for copies in (1, 3))
        outputs = three[0](*three[1])
        assert all(torch.isfinite(out).all() for out in (outputs if isinstance(outputs, tuple) else (outputs,)))
        sizes = [sum(each.numel() for each in module.parameters()) for module, _ in (one, three)]
        assert sizes[1] == 3 * sizes[0], f"{unit}: copies must not share weights"


@pytest.mark.parametrize(("name", "phase"), CASES)
def test_whole_models_run(name: str, phase: str) -> None:
    arch = load_space(name).sample(random.Random(3))
    module, inputs = Workload(phase, arch).build(AT)
    out = module(*inputs)
    logits = out[0] if isinstance(out, tuple) else out
    assert torch.isfinite(logits).all() and logits.shape[0] == AT.batch


def test_a_whole_model_is_the_plain_one() -> None:
    arch = load_space("lm-tiny").sample(random.Random(1))
    module, inputs = Workload("prefill", arch).build(AT)
    assert torch.equal(module(*inputs), Transformer(arch, seed=0).eval()(*inputs))


def test_names_tell_workloads_apart_and_never_hold_anything_odd() -> None:
    units = units_of(load_space("lm-tiny"), "prefill")
    names = [Workload(phase, unit, copies).name for phase in ("prefill", "decode") for unit in units
             for copies in (1, 4)] + [Workload("prefill", width).name for width in (0, 64)]
    assert len(set(names)) == len(names)
    assert all(name.replace("-", "").replace("_", "").isalnum() for name in names)


def test_inputs_are_described_as_a_device_can_make_them() -> None:
    arch = load_space("lm-tiny").sample(random.Random(1))
    module, inputs = Workload("prefill", arch).build(AT)
    expected = [{"dtype": "int64", "shape": [2, 12], "high": arch.vocab_size}]
    assert described(module, inputs, greatest_token(arch)) == expected


@pytest.mark.parametrize("name", ["lm-tiny", "lm-small", "encoder-small", "seq2seq-small"])
def test_the_work_of_units_adds_up_to_the_model_s_multiply_adds(name: str) -> None:
    """Of every kind of unit: there is one counter."""
    at, space = Conditions(batch=1, length=16, past=8), load_space(name)
    for seed in range(3):
        arch = space.sample(random.Random(seed))
        works = unit_works({step.unit for step in phase_steps(arch, "prefill")}, "prefill", at)
        assert sum(works[step.unit].macs for step in phase_steps(arch, "prefill")) == count(arch, 16).macs


def test_a_tied_head_has_no_weights_of_its_own() -> None:
    arch = next(arch for arch in (load_space("lm-tiny").sample(random.Random(i)) for i in range(99))
                if arch.head.kind == "tied")
    work = work_of(Workload("prefill", phase_steps(arch, "prefill")[-1].unit), AT)
    assert work.weight_bytes == 0 and work.macs > 0


def test_few_units_are_spread_over_every_kind() -> None:
    works = unit_works(units_of(load_space("lm-tiny"), "prefill"), "prefill", AT)
    order = spread_order(works)
    chosen = order[:30]
    assert n_ends(works) <= 30 == len(set(chosen))
    assert {(unit.role, unit.block.kind) for unit in chosen} == {(unit.role, unit.block.kind) for unit in works}
    assert len(order) == len(works) and set(order) == set(works)


def test_held_out_models_avoid_those_seen_and_never_loop_for_ever() -> None:
    space = load_space("lm-tiny")
    first = draw_models(space, 20, "a", avoid=set())
    second = draw_models(space, 20, "b", avoid={arch.key for arch in first})
    assert len({arch.key for arch in first + second}) == 40
    assert draw_models(space, 20, "a", avoid=set()) == first
    with pytest.raises(InputError, match="too few architectures"):
        draw_models(load_space("hat-like"), 3, "a", avoid=_everything())


def _everything() -> set[str]:
    class All(set[str]):
        def __contains__(self, key: object) -> bool:
            return True
    return All()


def test_an_embedding_moves_the_rows_it_looks_up_and_not_its_table() -> None:
    unit = next(unit for unit in units_of(load_space("lm-small"), "decode") if unit.role == "embedding")
    work = work_of(Workload("decode", unit), Conditions(batch=1, length=128, past=64))
    assert work.moved_bytes < 0.5 * work.weight_bytes


@torch.no_grad()
@pytest.mark.parametrize("decoder", ["open", "fixed"])
def test_compiled_decoders_are_those_that_are_exported(decoder):
    arch = load_space("seq2seq-small").sample(random.Random(1))
    module, inputs = Workload("decode", arch).build(AT, decoder)
    logits, *present = module(*inputs)
    assert logits.shape == (AT.batch, 1, arch.vocab_size) and len(present) == len(module.past)
    for slot, tensor in zip(module.past, present):
        assert tuple(tensor.shape) == slot.shape(AT.batch, AT.past + (decoder == "open"), AT.length)
    high = {each["high"] for each in described(module, inputs, arch.vocab_size) if "high" in each}
    assert high == {2, arch.context, arch.vocab_size}


@torch.no_grad()
@pytest.mark.parametrize("name", ["zoo-lm", "seq2seq-small"])
def test_units_of_compiled_decoders_compute_the_same_with_masks_and_positions(name):
    """Every kind with a state; a fixed window also loses its oldest token."""
    kinds = {(unit.role, unit.block.kind): unit for unit in units_of(load_space(name), "decode")
             if unit.role in ("mixer", "cross")}
    for unit in kinds.values():
        plain, given = Workload("decode", unit, 2).build(AT)
        expected, *grown = plain(*given)
        for decoder in ("open", "fixed"):
            module, inputs = Workload("decode", unit, 2).build(AT, decoder)
            at_past = torch.full_like(inputs[2], AT.past)
            x, *states = module(given[0], inputs[1], at_past, *given[1:])
            assert torch.allclose(x, expected, atol=1e-5), unit
            assert len(states) == (0 if unit.role == "cross" else len(grown))
            for axis, tensor, whole in zip(module.axes * 2, states, grown):
                kept = whole if axis is None or decoder == "open" else whole.narrow(axis, 1, AT.past)
                assert torch.allclose(tensor, kept, atol=1e-5), unit
        assert [each["high"] for each in described(module, inputs, 9) if "high" in each] == [2, 2]
