"""What every block kind promises."""

from __future__ import annotations

import dataclasses
import inspect
import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from nas.core.costs import count
from nas.core.macs import unit_macs
from nas.testing.examples import FACTS, hidden, modules, space_data, space_facts, valid_configs
from nas.testing.parity import Report, batch, compare, randomised
from search_spaces import Architecture
from search_spaces import registry as kinds
from search_spaces.files.loader import space_from_data
from search_spaces.kind import Kind
from search_spaces.units import SUBLAYERS, Unit, length_after
from supernet import Transformer
from supernet.build import build_unit
from supernet.cache import state_shapes
from supernet.call import Call, Record, State
from supernet.compression.quantised import DYNAMIC, dequantised, quantise
from supernet.train.losses import label_loss, soft_loss

PIECES = (3, 1, 1, 2, 1, 1)
MOST_ROUNDING = 0.1
"""How far the logits of half of the tokens may be off in int8, relative to their size."""


class BlockContract:
    """Set `name` to that of your kind."""

    name: str

    @property
    def kind(self) -> Kind:
        """The kind under test."""
        return kinds.get(self.name)

    def sublayers(self, **facts: object) -> Iterator[tuple[Unit, nn.Module]]:
        """Units of several configurations, where the kind is a sub-layer."""
        if self.kind.role not in SUBLAYERS:
            pytest.skip("only for sub-layers")
        return modules(self.name, dataclasses.replace(FACTS, **facts))  # type: ignore[arg-type]

    def test_its_role_is_kept(self) -> None:
        check = {"embedding": self._embeds, "head": self._scores, "between": self._changes_the_length}
        check.get(self.kind.role, self._keeps_the_shape)()

    def _keeps_the_shape(self) -> None:
        call = Call(memory=hidden(5))
        if self.kind.role not in SUBLAYERS:  # what restores a length is tried with the block that changed it
            return
        for _, module in modules(self.name):
            x = hidden()
            y = module(x, call)
            assert y.shape == x.shape and y.isfinite().all()
            module(hidden(4), call)
            assert torch.equal(y, module(x, call)), "a module keeps no state"

    def _embeds(self) -> None:
        for _, module in modules(self.name):
            tokens = torch.randint(0, FACTS.vocab_size, (2, 7))
            assert module(tokens, None, False).shape == (2, 7, FACTS.width)

    def _scores(self) -> None:
        for _, module in modules(self.name):
            tied = {key: torch.randn(shape) for key, shape in getattr(module, "tied_shapes", dict)().items()}
            logits = module(hidden(), None, tied)
            assert logits.isfinite().all()
            if self.kind.over_words:
                assert logits.shape == (2, 9, FACTS.vocab_size)
                self._learns(module, tied)

    def _learns(self, head: nn.Module, tied: dict[str, Tensor]) -> None:
        """From labels and from a teacher."""
        labels, targets = torch.arange(18) % FACTS.vocab_size, torch.rand(18, FACTS.vocab_size).softmax(-1)
        for loss, goal in ((label_loss, labels), (soft_loss, targets)):
            x = hidden().requires_grad_()
            loss(head(x, None, tied).flatten(0, 1), goal).backward()  # type: ignore[no-untyped-call]
            assert x.grad is not None and x.grad.isfinite().all() and x.grad.any()

    def _changes_the_length(self) -> None:
        for unit, module in modules(self.name):
            for n in (1, 8, 9):
                mask = torch.arange(n).expand(2, -1) < torch.tensor([[n], [max(n - 3, 1)]])
                x = hidden(n)
                y, call = module(x, Call(mask=mask))
                share = self.kind.length(dict(unit.block.dims)) if self.kind.length else 1
                assert y.shape == (2, math.ceil(n * share), FACTS.width) and call.mask.shape == y.shape[:2]
                noise = torch.where(mask[..., None], x, torch.randn_like(x))
                assert torch.allclose(module(noise, Call(mask=mask))[0][call.mask], y[call.mask], atol=1e-5)
                if self.kind.restored_by:
                    restore = length_after(unit.block, FACTS, 1.0)[1]
                    assert restore is not None
                    whole, end = build_unit(restore)(y, call)
                    assert whole.shape == x.shape and torch.equal(end.mask, mask) and end.before == ()

    def test_padding_does_not_reach_real_tokens(self) -> None:
        for _, module in self.sublayers():
            x, memory = hidden(), hidden(6)
            other = torch.cat([x[:, :6], torch.randn(2, 3, FACTS.width)], dim=1)
            far = torch.cat([memory[:, :4], torch.randn(2, 2, FACTS.width)], dim=1)
            mask, memory_mask = torch.arange(9).expand(2, -1) < 6, torch.arange(6).expand(2, -1) < 4
            a = module(x, Call(mask=mask, memory=memory, memory_mask=memory_mask))[:, :6]
            b = module(other, Call(mask=mask, memory=far, memory_mask=memory_mask))[:, :6]
            assert torch.allclose(a, b, atol=1e-5)

    @pytest.mark.parametrize("positions", ["learned", "rotary"])
    def test_a_causal_mixer_does_not_look_ahead(self, positions: str) -> None:
        if self.kind.role != "mixer" or not self.kind.causal:
            pytest.skip("only for causal mixers")
        for _, module in self.sublayers(causal=True, positions=positions):
            x = hidden()
            changed = torch.cat([x[:, :5], torch.randn(2, 4, FACTS.width)], dim=1)
            assert torch.allclose(module(x, Call())[:, :5], module(changed, Call())[:, :5], atol=1e-5)

    def test_recording_changes_no_output(self) -> None:
        for _, module in self.sublayers():
            x, memory, record = hidden(), hidden(5), Record()
            recorded = module(x, Call(memory=memory, record=record))
            assert torch.allclose(recorded, module(x, Call(memory=memory)), atol=1e-5)
            assert all(map.shape[-2] == 9 for map in record.attention)

    @torch.no_grad()
    @pytest.mark.parametrize("positions", ["learned", "rotary"])
    def test_pieces_give_what_the_whole_gives(self, positions: str) -> None:
        if not self.kind.causal:
            pytest.skip("only for decoder blocks")
        for unit, module in self.sublayers(causal=True, positions=positions, context=32):
            if not hasattr(module.block, "state_shapes") and unit.role != "ffn":
                pytest.skip(f"{self.name} declares no state_shapes: it cannot decode token by token")
            self._check_pieces(unit, module)

    def _check_pieces(self, unit: Unit, module: nn.Module) -> None:
        x, memory, done = hidden(sum(PIECES)), hidden(5), 0
        state = State(tuple(torch.zeros(shape) for shape in state_shapes(unit, 2, 0)))
        mask = torch.arange(5).expand(2, -1) < torch.tensor([[5], [3]])
        whole = module(x, Call(memory=memory, memory_mask=mask))
        for n in PIECES:
            before = [(tensor, tensor.clone()) for tensor in state.tensors]
            y = module(x[:, done : done + n], Call(memory=memory, memory_mask=mask, state=state, position=done))
            assert torch.allclose(y, whole[:, done : done + n], atol=1e-5)
            assert all(torch.equal(tensor, copy) for tensor, copy in before), "a tensor of the state was overwritten"
            done += n
            past = 5 if unit.role == "cross" else done
            assert tuple(tuple(tensor.shape) for tensor in state.tensors) == state_shapes(unit, 2, past)

    def test_every_unit_can_be_counted(self) -> None:
        for unit, module in modules(self.name):
            assert unit_macs(unit, 8, 4) >= 0
            if unit.role in SUBLAYERS and any(tensor.ndim > 1 for tensor in module.parameters()):
                assert unit_macs(unit, 8, 4) > unit_macs(unit, 4, 4) > 0

    def test_sampling_counting_slicing_and_extraction_work(self) -> None:
        if self.kind.role == "restore":
            pytest.skip("only for blocks that a space file names")
        configs = valid_configs(self.kind, *space_facts(self.kind), most=4)
        space = space_from_data(space_data(self.kind, configs), self.name)
        net, report, rng = randomised(space), Report(), random.Random(0)
        for i in range(6):
            arch = space.sample(rng)
            assert space.decode(space.encode(arch)) == arch == Architecture.from_json(arch.to_json())
            compare(net, arch, i, report)
            assert count(arch, seq_len=6).macs > 0
        assert report.ok, (report.worst, report.leaks, report.miscounts)
        assert self.name in report.covered or not self.kind.dims

    def test_it_survives_eight_bits(self, tmp_path: Path) -> None:
        if self.kind.role == "restore":
            pytest.skip("only for blocks that a space file names")
        config = valid_configs(self.kind, *space_facts(self.kind), most=1)
        model = Transformer(space_from_data(space_data(self.kind, config), self.name).largest(), seed=0).eval()
        inputs, keywords = batch(model.arch, 0)
        with torch.no_grad():
            expected: Tensor = model(*inputs, **keywords)
            quantised = quantise(model, DYNAMIC)
            errors = (quantised(*inputs, **keywords) - expected).norm(dim=-1) / expected.norm(dim=-1).mean()
            assert float(errors.flatten().quantile(0.5)) < MOST_ROUNDING
            assert dequantised(quantised)(*inputs, **keywords).isfinite().all()

    def test_a_wrong_dim_is_an_error_with_the_value(self) -> None:
        for dim in self.kind.dims:
            config = {**valid_configs(self.kind)[0], dim.name: "nonsense"}
            faults = self.kind.faults(config, FACTS.as_dict())
            assert any("'nonsense'" in fault.message and fault.key == dim.name for fault in faults)

    def test_an_embedding_reads_on_from_any_position(self) -> None:
        if self.kind.role != "embedding" or not self.kind.causal:
            pytest.skip("only for decoder embeddings")
        tokens = torch.randint(0, FACTS.vocab_size, (2, 9))
        for _, module in modules(self.name, dataclasses.replace(FACTS, causal=True)):
            if "position" not in inspect.signature(module.forward).parameters:
                pytest.skip(f"{self.name} takes no position: it cannot decode token by token")
            assert torch.allclose(module(tokens, None, False)[:, 6:], module(tokens[:, 6:], None, False, 6), atol=1e-5)
