"""What every block kind promises, run over every kind that is installed."""

import dataclasses
import math
import random

import pytest
import torch

from nas.core.costs import count
from nas.core.macs import unit_macs
from search_spaces import Architecture, InputError
from search_spaces import registry as kinds
from search_spaces.block import BlockConfig
from search_spaces.files.loader import space_from_data
from search_spaces.units import SUBLAYERS, after, make_unit
from supernet.build import build_unit
from supernet.call import Call, Record
from supernet.train.losses import label_loss, soft_loss
from tests.contracts.examples import FACTS, all_kinds, hidden, modules, space_data, space_facts, valid_configs
from tests.parity import Report, compare, randomised

EVERY, MIXERS = all_kinds(), all_kinds("mixer")
SUB = [name for name in EVERY if kinds.get(name).role in SUBLAYERS]


@pytest.mark.parametrize("name", SUB)
def test_a_sublayer_keeps_the_shape_and_no_state(name):
    call = Call(memory=hidden(5))
    for _, module in modules(name):
        x = hidden()
        y = module(x, call)
        assert y.shape == x.shape and y.isfinite().all()
        module(hidden(4), call)
        assert torch.equal(y, module(x, call))


@pytest.mark.parametrize("name", SUB)
def test_padding_does_not_reach_real_tokens(name):
    for _, module in modules(name):
        x, memory = hidden(), hidden(6)
        other = torch.cat([x[:, :6], torch.randn(2, 3, FACTS.width)], dim=1)
        far = torch.cat([memory[:, :4], torch.randn(2, 2, FACTS.width)], dim=1)
        mask, memory_mask = torch.arange(9).expand(2, -1) < 6, torch.arange(6).expand(2, -1) < 4
        a = module(x, Call(mask=mask, memory=memory, memory_mask=memory_mask))[:, :6]
        b = module(other, Call(mask=mask, memory=far, memory_mask=memory_mask))[:, :6]
        assert torch.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in MIXERS if kinds.get(name).causal])
@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_a_causal_mixer_does_not_look_ahead(name, positions):
    for _, module in modules(name, dataclasses.replace(FACTS, causal=True, positions=positions)):
        x = hidden()
        changed = torch.cat([x[:, :5], torch.randn(2, 4, FACTS.width)], dim=1)
        assert torch.allclose(module(x, Call())[:, :5], module(changed, Call())[:, :5], atol=1e-5)


@pytest.mark.parametrize("name", SUB)
def test_recording_changes_no_output(name):
    for _, module in modules(name):
        x, memory, record = hidden(), hidden(5), Record()
        recorded = module(x, Call(memory=memory, record=record))
        assert torch.allclose(recorded, module(x, Call(memory=memory)), atol=1e-5)
        assert all(map.shape[-2] == 9 for map in record.attention)


@pytest.mark.parametrize("name", all_kinds("embedding"))
def test_an_embedding_gives_the_width(name):
    for _, module in modules(name):
        tokens = torch.randint(0, FACTS.vocab_size, (2, 7))
        assert module(tokens, None, False).shape == (2, 7, FACTS.width)


@pytest.mark.parametrize("name", all_kinds("head"))
def test_a_head_that_scores_words_scores_all_of_them(name):
    for _, module in modules(name):
        tied = {key: torch.randn(shape) for key, shape in getattr(module, "tied_shapes", dict)().items()}
        logits = module(hidden(), None, tied)
        assert logits.isfinite().all()
        if kinds.get(name).over_words:
            assert logits.shape == (2, 9, FACTS.vocab_size)


@pytest.mark.parametrize("name", [name for name in all_kinds("head") if kinds.get(name).over_words])
def test_a_head_over_words_learns_from_labels_and_from_a_teacher(name):
    for _, module in list(modules(name))[:2]:
        tied = {key: torch.randn(shape) for key, shape in getattr(module, "tied_shapes", dict)().items()}
        labels = torch.arange(18) % FACTS.vocab_size
        targets = torch.rand(18, FACTS.vocab_size).softmax(-1)
        for loss, goal in ((label_loss, labels), (soft_loss, targets)):
            x = hidden().requires_grad_()
            loss(module(x, None, tied).flatten(0, 1), goal).backward()
            assert x.grad.isfinite().all() and x.grad.any()


@pytest.mark.parametrize("name", EVERY)
def test_every_unit_can_be_counted(name):
    for unit, module in modules(name):
        assert unit_macs(unit, 8, 4) >= 0
        if unit.role in SUBLAYERS and any(tensor.ndim > 1 for tensor in module.parameters()):
            assert unit_macs(unit, 8, 4) > unit_macs(unit, 4, 4) > 0


@pytest.mark.parametrize("name", all_kinds("between"))
def test_what_stands_between_layers_tells_how_it_changes_the_length(name):
    kind = kinds.get(name)
    for unit, module in modules(name):
        for n in (1, 8, 9):
            mask = torch.arange(n).expand(2, -1) < torch.tensor([[n], [max(n - 3, 1)]])
            x = hidden(n)
            y, call = module(x, Call(mask=mask))
            share = kind.length(dict(unit.block.dims)) if kind.length else 1
            assert y.shape == (2, math.ceil(n * share), FACTS.width) and call.mask.shape == y.shape[:2]
            hidden_padding = torch.where(mask[..., None], x, torch.randn_like(x))
            assert torch.allclose(module(hidden_padding, Call(mask=mask))[0][call.mask], y[call.mask], atol=1e-5)
            if kind.restored_by:
                restore = build_unit(after(unit.block, FACTS, 1.0)[1])
                whole, end = restore(y, call)
                assert whole.shape == x.shape and torch.equal(end.mask, mask) and end.before == ()


@pytest.mark.parametrize("name", [name for name in EVERY if kinds.get(name).role != "restore"])
def test_sampling_counting_slicing_and_extraction_work(name):
    kind = kinds.get(name)
    space = space_from_data(space_data(kind, valid_configs(kind, *space_facts(kind), most=4)), name)
    net, report, rng = randomised(space), Report(), random.Random(0)
    for i in range(6):
        arch = space.sample(rng)
        assert space.decode(space.encode(arch)) == arch == Architecture.from_json(arch.to_json())
        compare(net, arch, i, report)
        assert count(arch, seq_len=6).macs > 0
    assert report.ok, (report.worst, report.leaks, report.miscounts)
    assert kind.name in report.covered or not kind.dims


@pytest.mark.parametrize("name", EVERY)
def test_a_wrong_dim_is_an_error_with_the_value(name):
    kind = kinds.get(name)
    for dim in kind.dims:
        config = {**valid_configs(kind)[0], dim.name: "nonsense"}
        faults = kind.faults(config, FACTS.as_dict())
        assert any("'nonsense'" in fault.says and fault.key == dim.name for fault in faults)


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
