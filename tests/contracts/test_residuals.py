"""What every residual promises, run over every one that is installed and over one with two streams."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml
from torch import Tensor, nn

from hardware_profiles.profile import Conditions
from hardware_profiles.table import read_unit, unit_text
from nas.core.costs import count
from nas.core.macs import unit_macs
from nas.core.timing.workloads import Workload
from nas.stages.export import formats
from nas.stages.export.shipment import Shipment
from search_spaces import Architecture, InputError, SearchSpace
from search_spaces import residual as residuals
from search_spaces.files.loader import space_from_text
from search_spaces.residual import ResidualKind
from search_spaces.space.inventory import inventory
from search_spaces.units import SUBLAYERS, plan
from supernet import Transformer, extract
from supernet.compression.quantised import DYNAMIC, quantise
from supernet.layers.norms import make_norm
from supernet.residuals._base import Residual, Sub
from tests import shipments
from tests.parity import Report, batch, compare, randomised


class TwoStreams(Residual):
    """Adds to one stream what the block makes of the other, by turns."""

    def __init__(self, block: nn.Module, *, width: int, norm: str) -> None:
        super().__init__(block, make_norm(norm, width))

    @staticmethod
    def enter(x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x

    def add(self, streams: tuple[Tensor, Tensor], sub: Sub) -> tuple[Tensor, Tensor]:
        first, second = streams
        return second, first + sub(self.norm(second))

    @staticmethod
    def leave(streams: tuple[Tensor, Tensor]) -> Tensor:
        return (streams[0] + streams[1]) / 2


TWO = ResidualKind("two_streams", TwoStreams, ("width", "norm"), closing_norm=lambda facts: True)
NAMES = [*residuals.names(), TWO.name]
FAMILIES = tuple(shipments.SPACES)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(residuals.registry(), TWO.name, TWO)
    yield


def space(family: str, *names: str) -> SearchSpace:
    data = {**shipments.BASE, "name": family, "family": family, **shipments.SPACES[family], "residual": list(names)}
    return space_from_text(yaml.safe_dump(data), family)


def some(family: str, name: str, n: int) -> list[Architecture]:
    rng, found = random.Random(f"{family} {name}"), space(family, name)
    return [found.sample(rng) for _ in range(n)]


def models(family: str, name: str, n: int) -> Iterator[Transformer]:
    net = randomised(space(family, name))
    for arch in some(family, name, n):
        yield extract(net, arch)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", NAMES)
def test_the_supernet_and_the_plain_model_agree(name: str, family: str) -> None:
    names = dict.fromkeys(["plain", name])
    found, report, rng, seen = space(family, *names), Report(), random.Random(0), set()
    net, units = randomised(found), inventory(found)
    for i in range(12):
        arch = found.sample(rng)
        seen.add(arch.residual)
        compare(net, arch, i, report)
        assert found.decode(found.encode(arch)) == arch == Architecture.from_json(arch.to_json())
        assert all(step.unit in units[step.path] for step in plan(arch))
    assert report.ok, (report.worst, report.leaks, report.miscounts)
    assert seen == set(names)


@pytest.mark.parametrize("name", NAMES)
def test_its_units_are_counted_timed_and_named(name: str) -> None:
    for family in FAMILIES:
        for arch in some(family, name, 3):
            assert count(arch, seq_len=8).macs > 0
            for unit in (step.unit for step in plan(arch) if step.unit.role in SUBLAYERS):
                assert unit_macs(unit, 8, 4) > 0 and read_unit(unit_text(unit)) == unit
                assert dict(unit.facts).get("residual", "plain") == name
                module, inputs = Workload("prefill", unit, 2).build(Conditions(batch=1, length=6, past=3))
                assert module(*inputs).shape == inputs[0].shape


@pytest.mark.parametrize("name", NAMES)
def test_pieces_give_what_the_whole_gives(name: str) -> None:
    for model in models("lm", name, 4):
        (tokens,), _ = batch(model.arch, 0)
        with torch.no_grad():
            whole, cache = model(tokens), model.start(len(tokens))
            for first, last in ((0, 4), (4, 5), (5, 10)):
                logits, cache = model.decode(tokens[:, first:last], cache)
                assert torch.allclose(logits, whole[:, first:last], atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_recomputing_changes_no_gradient(name: str) -> None:
    for model in models("encoder", name, 2):
        inputs, keywords = batch(model.arch, 0)
        gradients = []
        for model.checkpointing in (False, True):
            model.zero_grad()
            model(*inputs, **keywords).square().sum().backward()
            gradients.append([each.grad.clone() for each in model.parameters() if each.grad is not None])
        assert len(gradients[0]) == len(gradients[1])
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*gradients))


@pytest.mark.parametrize("name", NAMES)
def test_features_are_hidden_states(name: str) -> None:
    for model in models("lm", name, 2):
        inputs, keywords = batch(model.arch, 0)
        found = model(*inputs, **keywords, outputs=("features", "attention"))
        assert [each.shape for each in found["features"]] == [(2, 10, model.arch.width)] * model.arch.depth


@pytest.mark.parametrize("name", NAMES)
def test_it_survives_eight_bits(name: str) -> None:
    for model in models("lm", name, 3):
        inputs, keywords = batch(model.arch, 0)
        with torch.no_grad():
            expected = model(*inputs, **keywords)
            assert float((quantise(model, DYNAMIC)(*inputs, **keywords) - expected).norm() / expected.norm()) < 0.1


@pytest.mark.parametrize("to", ["huggingface", "onnx"])
@pytest.mark.parametrize("name", NAMES)
def test_it_is_exported(name: str, to: str, tmp_path: Path) -> None:
    form = formats.get(to)
    if form.missing():
        pytest.skip(form.missing())
    for family in FAMILIES:
        (model,) = models(family, name, 1)
        subnet = shipments.ship(model, tmp_path / family)
        shipment = Shipment(subnet, model.arch.context, False)
        (folder := tmp_path / f"{family}-{to}").mkdir()
        form.write(shipment, folder)
        inputs = shipment.example(2, model.arch.context)
        with torch.no_grad():
            assert torch.allclose(form.load(shipment, folder)(inputs), shipment.module(*inputs), atol=1e-5)


def test_the_default_is_not_named() -> None:
    arch = some("lm", "plain", 1)[0]
    assert "residual" not in arch.to_dict()
    named = {**arch.to_dict(), "residual": "plain"}
    assert Architecture.from_dict(named).key == arch.key
    assert all("residual" not in dict(step.unit.facts) for step in plan(arch))


def test_placements_that_have_no_effect_are_one() -> None:
    both, alone = space("encoder", "plain", TWO.name), space("encoder", TWO.name)
    assert both.size() == 3 * alone.size()  # two placements of plain
    arch = alone.sample(random.Random(0))
    assert arch.placement == "pre" and alone.decode(alone.encode(arch)) == arch
    genes = {**both.encode(arch), "placement": "post"}
    found, used = both.read(genes)
    assert found == arch and "placement" not in used and "residual" in used
    with pytest.raises(InputError, match="placement: 'post' has no effect with the residual two_streams; write pre"):
        Architecture.from_dict({**arch.to_dict(), "placement": "post"})


def test_an_unknown_one_is_named() -> None:
    with pytest.raises(InputError, match="residual: unknown 'none'; installed: plain"):
        space("lm", "none")
    arch = some("lm", "plain", 1)[0]
    with pytest.raises(InputError, match="residual: 'none' is not allowed; allowed: plain"):
        Architecture.from_dict({**arch.to_dict(), "residual": "none"})
    with pytest.raises(InputError, match="residual: 'two_streams'; this space has 'plain'"):
        shipments.space("lm").encode(some("lm", TWO.name, 1)[0])
