"""Every installed measure keeps the contract of `nas.core.measures.MeasureKind`; so does one from somebody else."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from nas.core.measures import Measure, MeasureKind, PriceConditions, parse_limit, parse_measure, registry
from nas.core.pricing import Prices
from search_spaces import Architecture, load_space
from supernet import Transformer

MEASURES = sorted(registry())
COUNTED = [name for name in MEASURES if not registry()[name].on_device]
SPACES = ("lm-tiny", "encoder-small", "seq2seq-small")


def drawn(name: str) -> list[Architecture]:
    space = load_space(name)
    return [space.sample(random.Random(seed)) for seed in range(4)]


def written(kind: MeasureKind) -> list[str]:
    """The ways to name it."""
    if not kind.on_device:
        return [kind.name]
    return [f"{kind.name}:cpu", *(f"{kind.name}:cpu:{phase}" for phase in kind.phases[1:])]


@pytest.mark.parametrize("name", MEASURES)
def test_names_and_values_come_back_as_they_were_written(name: str) -> None:
    kind = registry()[name]
    for text in written(kind):
        measure = parse_measure(text, {})
        assert measure.name == text and measure.declared is kind and not measure.is_quality
        assert kind.label in measure.label and measure.maximise == kind.maximise
        for value in (0.0, 1.0, 12.3456, 1234.5, 98_765_432.1):
            low, high = (parse_limit(f"{text}={kind.show_bound(value, above)}", {}).value for above in (True, False))
            assert low <= value <= high and high - low <= 1
            assert kind.show(value)
    assert all(unit == unit.lower() for unit in kind.units)


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("space", SPACES)
def test_one_and_many_prices_agree(name: str, space: str) -> None:
    kind, archs = registry()[name], drawn(space)
    at = PriceConditions(archs[0].context)
    known = [arch for arch in archs if not kind.why_not(arch)]
    prices = Prices({}, at.seq_len)
    assert kind.price_many(known, at).tolist() == [kind.price(arch, at) for arch in known]
    assert all(price >= 0 for price in kind.price_many(known, at))
    assert [name in prices.all_of(arch) for arch in archs] == [arch in known for arch in archs]
    if known:
        model = Transformer(known[0], seed=0)
        assert kind.price_model(model, at) == kind.price(known[0], at), "a model that was not compressed"
    assert prices.unmeasured_shares([Measure(name)], archs).max() == 0 or kind.partly_unmeasured


PLUGIN = '''
from nas.core.measures import MeasureKind

class Depth(MeasureKind):
    name, label, maximise = "depth", "layers", True

    def price(self, arch, at):
        return arch.depth

DEPTH = Depth()
'''
SCRIPT = '''
from nas.core.measures import parse_limit, parse_measure
from nas.core.pricing import Prices
from search_spaces import load_space
arch = load_space("lm-tiny").largest()
assert Prices({}, arch.context).all_of(arch)["depth"] == arch.depth
assert parse_measure("depth", {}).maximise and parse_limit("depth=3", {}).value == 3
'''


def run(folder: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    return subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path, **variables},
                          capture_output=True, text=True, check=False)


@pytest.mark.parametrize("way", ["entry point", "file"])
def test_a_measure_of_somebody_else_needs_no_change_here(way: str, tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(PLUGIN, "utf-8")
    metadata = tmp_path / "theirs-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n", "utf-8")
    if way == "entry point":
        (metadata / "entry_points.txt").write_text("[nas.measures]\ntheirs = theirs\n", "utf-8")
    variables = {"NAS_PLUGINS": str(tmp_path / "theirs.py")} if way == "file" else {}
    done = run(tmp_path, SCRIPT, **variables)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("before", "after", "says"), [
    ('"depth"', '"params"', "params"), ('"depth"', '"a:b"', "'a:b' is not a valid name of a measure"),
    ("name, label, maximise =", "name, nothing, maximise =", "label")])
def test_a_wrong_declaration_is_refused_in_a_sentence(before: str, after: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(PLUGIN.replace(before, after), "utf-8")
    done = run(tmp_path, "from nas.core.measures import registry; registry()", NAS_PLUGINS=str(tmp_path / "theirs.py"))
    assert done.returncode and "InputError" in done.stderr and says in done.stderr.splitlines()[-1]
