"""What every residual promises."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml

from hardware_profiles.profile import Conditions
from hardware_profiles.table import read_unit, unit_text
from nas.core.costs import count
from nas.core.macs import unit_macs
from nas.core.timing.workloads import Workload
from nas.stages.export import formats
from nas.stages.export.job import ExportJob
from nas.testing.parity import Report, batch, compare, randomised
from nas.testing.small_subnets import BASE, SPACES, ship
from search_spaces import Architecture, SearchSpace
from search_spaces.files.loader import space_from_text
from search_spaces.residual import PLAIN
from search_spaces.space.inventory import inventory
from search_spaces.units import SUBLAYERS, plan
from supernet import Transformer, extract
from supernet.compression.quantised import DYNAMIC, quantise

FAMILIES = tuple(SPACES)


def space(family: str, *names: str) -> SearchSpace:
    """A small space of a family with these residuals."""
    data = {**BASE, "name": family, "family": family, **SPACES[family], "residual": list(names)}
    return space_from_text(yaml.safe_dump(data), family)


def some(family: str, name: str, n: int) -> list[Architecture]:
    """Architectures with a residual."""
    rng, contained = random.Random(f"{family} {name}"), space(family, name)
    return [contained.sample(rng) for _ in range(n)]


def models(family: str, name: str, n: int) -> Iterator[Transformer]:
    """Plain models with a residual; norms and biases are random too."""
    net = randomised(space(family, name))
    for arch in some(family, name, n):
        yield extract(net, arch)


class ResidualContract:
    """Set `name` to that of your residual."""

    name: str

    @pytest.mark.parametrize("family", FAMILIES)
    def test_the_supernet_and_the_plain_model_agree(self, family: str) -> None:
        names = dict.fromkeys([PLAIN, self.name])
        small, report, rng, seen = space(family, *names), Report(), random.Random(0), set()
        net, units = randomised(small), inventory(small)
        for i in range(12):
            arch = small.sample(rng)
            seen.add(arch.residual)
            compare(net, arch, i, report)
            assert small.decode(small.encode(arch)) == arch == Architecture.from_json(arch.to_json())
            assert all(step.unit in units[step.path] for step in plan(arch))
        assert report.ok, (report.worst, report.leaks, report.miscounts)
        assert seen == set(names)

    def test_its_units_are_counted_timed_and_named(self) -> None:
        for family in FAMILIES:
            for arch in some(family, self.name, 3):
                assert count(arch, seq_len=8).macs > 0
                for unit in (step.unit for step in plan(arch) if step.unit.role in SUBLAYERS):
                    assert unit_macs(unit, 8, 4) > 0 and read_unit(unit_text(unit)) == unit
                    assert dict(unit.facts).get("residual", PLAIN) == self.name
                    module, inputs = Workload("prefill", unit, 2).build(Conditions(batch=1, length=6, past=3))
                    assert module(*inputs).shape == inputs[0].shape

    def test_pieces_give_what_the_whole_gives(self) -> None:
        for model in models("lm", self.name, 4):
            (tokens,), _ = batch(model.arch, 0)
            with torch.no_grad():
                whole, cache = model(tokens), model.start(len(tokens))
                for first, last in ((0, 4), (4, 5), (5, 10)):
                    logits, cache = model.decode(tokens[:, first:last], cache)
                    assert torch.allclose(logits, whole[:, first:last], atol=1e-5)

    def test_recomputing_changes_no_gradient(self) -> None:
        for model in models("encoder", self.name, 2):
            inputs, keywords = batch(model.arch, 0)
            gradients = []
            for model.checkpointing in (False, True):
                model.zero_grad()
                model(*inputs, **keywords).square().sum().backward()
                gradients.append([parameter.grad.clone() for parameter in model.parameters()
                                  if parameter.grad is not None])
            assert len(gradients[0]) == len(gradients[1])
            assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*gradients))

    def test_features_are_hidden_states(self) -> None:
        for model in models("lm", self.name, 2):
            inputs, keywords = batch(model.arch, 0)
            outputs = model(*inputs, **keywords, outputs=("features", "attention"))
            shapes = [features.shape for features in outputs["features"]]
            assert shapes == [(2, 10, model.arch.width)] * model.arch.depth

    def test_it_survives_eight_bits(self) -> None:
        for model in models("lm", self.name, 3):
            inputs, keywords = batch(model.arch, 0)
            with torch.no_grad():
                expected = model(*inputs, **keywords)
                outputs = quantise(model, DYNAMIC)(*inputs, **keywords)
            assert float((outputs - expected).norm() / expected.norm()) < 0.1

    @pytest.mark.parametrize("to", ["huggingface", "onnx"])
    def test_it_is_exported(self, to: str, tmp_path: Path) -> None:
        """In the smallest model of each family, and in the decoder of a language model."""
        form = formats.get(to)
        if form.missing():
            pytest.skip(form.missing())
        for family in FAMILIES:
            small = space(family, self.name)
            model = extract(randomised(small), small.smallest())
            job = ExportJob(ship(model, tmp_path / family), model.arch.context, False, decoder=family == "lm")
            (folder := tmp_path / f"{family}-{to}").mkdir()
            form.write(job, folder)
            inputs = job.example(2, model.arch.context)
            with torch.no_grad():
                assert torch.allclose(form.load(job, folder)(inputs), job.module(*inputs), atol=1e-5)
