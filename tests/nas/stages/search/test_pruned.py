"""Searches that start with smaller versions of the largest architecture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from nas.core.run_dir import RunDir
from nas.core.search_config import SearchConfig
from nas.costs import count
from nas.stages.search.pruned import SHARES, by_importance, fewer_layers, pruned_starts, uniform
from nas.stages.search.setup import SearchSetup
from search_spaces import Architecture, SearchSpace
from search_spaces.files.loader import space_from_text
from tests.nas.runs import nas, options
from tests.nas.stages.search.test_search import OPTIONS, rows

TEXT = """
schema_version: 1
name: small
family: encoder
vocab_size: 50
context: 16
n_classes: 2
width: [16]
embedding: {lookup: {rank: [full]}}
head: {classifier: {}}
encoder:
  slots: 4
  depth: {keep: searched, at_least: 2}
  layers:
    block:
      mixer: {attention: {head_dim: [4], n_heads: [1, 2, 4]}}
      ffn: {ffn: {inner: [8, 16, 32], activation: [gelu]}}
"""


@pytest.fixture(scope="module")
def space() -> SearchSpace:
    return space_from_text(TEXT, "small.yaml")


def dims(arch: Architecture) -> list[tuple[int, int, int]]:
    return [(layer.mixer_slot, layer.mixer["n_heads"], layer.ffn["inner"]) for layer in arch.encoder]


def test_fewer_layers_are_spread(space: SearchSpace) -> None:
    assert [[slot for slot, _, _ in dims(arch)] for arch in fewer_layers(space)] == [
        [0, 1, 2, 3], [0, 1, 2], [0, 2]], "one layer is below the least depth"


def test_uniform_shrinking_takes_one_factor(space: SearchSpace) -> None:
    archs = list(uniform(space))
    assert [dims(arch)[0][1:] for arch in archs] == [(4, 32), (2, 16), (1, 8)]
    assert all(len({size[1:] for size in dims(arch)}) == 1 and len(arch.encoder) == 4 for arch in archs)


def test_what_matters_least_is_removed_first(space: SearchSpace) -> None:
    """Layer 3 matters least, then the last channels of layer 1; everything else more."""
    scores = {(f"encoder.{i}.{role}", dim): [10.0] * n for i in range(4)
              for role, dim, n in (("mixer", "n_heads", 4), ("ffn", "inner", 32))}
    scores["encoder.3.mixer", "n_heads"] = [2.0, 2.0, 1.0, 1.0]
    scores["encoder.3.ffn", "inner"] = [3.0] * 32
    scores["encoder.1.ffn", "inner"] = [10.0] * 16 + [4.0] * 16
    archs = list(by_importance(space, scores))
    assert archs[0] == space.largest()
    assert [dims(arch)[3][1:] for arch in archs[1:5]] == [(2, 32), (1, 32), (1, 16), (1, 8)]
    assert dims(archs[5]) == [(0, 4, 32), (1, 4, 16), (2, 4, 32), (3, 1, 8)]
    macs = [count(arch, 16).macs for arch in archs]
    assert macs == sorted(macs, reverse=True) and all(arch in space for arch in archs)


def test_channels_that_matter_again_stay_in_order(space: SearchSpace) -> None:
    """Slices are prefixes: what lies behind an important channel is not removed after it."""
    scores = {("encoder.0.ffn", "inner"): [1.0] * 16 + [9.0] * 16, ("encoder.1.ffn", "inner"): [5.0] * 32}
    sizes = [(dims(arch)[0][2], dims(arch)[1][2]) for arch in by_importance(space, scores)]
    assert sizes == [(32, 32), (32, 16), (32, 8), (16, 8), (8, 8)]


def test_starts_fill_parts_of_the_budget(searchable: RunDir) -> None:
    setup = SearchSetup(searchable, SearchConfig(objectives=("loss", "params"), limit=8))
    starts, most = pruned_starts(setup), setup.costs(setup.space.largest())["params"]
    assert starts[0] == setup.space.largest() and len(starts) > 1 and starts == pruned_starts(setup)
    assert all(setup.costs(arch)["params"] <= SHARES[1] * most for arch in starts[1:])
    limited = SearchSetup(searchable, SearchConfig(objectives=("loss",), max=(f"params={0.8 * most:.0f}",), limit=8))
    assert pruned_starts(limited) and all(limited.within_limits(arch) for arch in pruned_starts(limited))
    assert pruned_starts(SearchSetup(searchable, SearchConfig(objectives=("loss",), limit=8))) == []


def test_runs_that_start_from_a_model_begin_with_its_smaller_versions(searchable: RunDir, capsys: Any,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    assert nas(capsys, *options("b", steps=2), "--init", "a")[0] == 0
    code, _, err = nas(capsys, "search", "b", *OPTIONS)
    assert (code, err) == (0, "")
    assert yaml.safe_load(Path("runs/b/search.yaml").read_text("utf-8"))["warm_start"] == ["pruned"]
    kept = json.loads(Path("runs/b/starts.json").read_text("utf-8"))["architectures"]
    keys = [Architecture.from_dict(entry).key for entry in kept]
    assert [row["key"] for row in rows("b")][:len(keys)] == keys
    monkeypatch.setattr("nas.stages.search.suggestions.pruned_starts", None)  # a resumed search has its starts
    assert nas(capsys, "search", "b", "--more", "2")[0] == 0
    assert nas(capsys, "search", "b", *OPTIONS, "--fresh", "--warm-start", "a/no-such")[0] == 2
    assert nas(capsys, "search", "a", *OPTIONS)[0] == 0
    assert yaml.safe_load(Path("runs/a/search.yaml").read_text("utf-8"))["warm_start"] == []
