"""The measure `cache_bytes` is what a real cache holds, and an objective and a limit like any other."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from nas.core.measures import parse_limit
from nas.core.measures.cache_bytes import cache_bytes
from nas.core.pricing import Prices
from nas.core.run_dir import RunDir
from search_spaces import Architecture, InputError, load_space
from supernet import Transformer
from tests.nas.runs import nas, refused


def held(arch: Architecture, length: int) -> int:
    """The bytes of a real model's cache after it read `length` tokens."""
    model = Transformer(arch, seed=0).eval()
    tokens = torch.zeros(1, length, dtype=torch.long)
    with torch.no_grad():
        _, cache = model.decode(tokens, model.start(tokens if arch.family == "seq2seq" else 1))
    return sum(tensor.nbytes for state in cache.states for tensor in state)


@pytest.mark.parametrize("name", ["lm-tiny", "lm-mixed", "delight-lm", "seq2seq-small"])
def test_it_is_what_a_real_cache_holds(name: str) -> None:
    space = load_space(name)
    for seed in range(3):
        arch = space.sample(random.Random(seed))
        for length in (1, 7, 20):
            assert cache_bytes(arch, length) == held(arch, length)
    assert cache_bytes(arch) == Prices({}, arch.context).all_of(arch)["cache_bytes"] > cache_bytes(arch, 20)


def test_what_does_not_decode_is_refused_in_a_sentence() -> None:
    space = load_space("encoder-small")
    prices, measure = Prices({}, space.context), parse_limit("cache_bytes=64kB", {}).measure
    assert "cache_bytes" not in prices.all_of(space.smallest())
    with pytest.raises(InputError, match="cache_bytes: the family encoder does not decode and has no cache"):
        prices.values([measure], [space.smallest()])
    with pytest.raises(InputError, match="length: 99999 is not allowed"):
        cache_bytes(load_space("lm-tiny").smallest(), 99999)


def test_it_is_an_objective_and_a_limit_of_a_search(searchable: RunDir, capsys: Any) -> None:
    space = searchable.space()
    most = cache_bytes(space.largest())
    limit = f"cache_bytes={0.75 * most / 1e3:.3f}kB"
    argv = ("search", "a", "--objective", "loss", "--objective", "cache_bytes", "--max", limit, "--trials", "12",
            "--limit", "4")
    code, out, err = nas(capsys, *argv)
    assert code == 0 and "cache_bytes" in out, err
    with Path("runs/a/trials.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["state"] == "COMPLETE"]
    assert rows and all(0 < float(row["cache_bytes"]) <= 0.75 * most for row in rows)
    front = json.loads(Path("runs/a/pareto.json").read_text("utf-8"))
    assert front["objectives"] == ["loss", "cache_bytes"] and front["front"]
    assert "cache_bytes" in nas(capsys, "pareto", "a")[1]
    assert nas(capsys, "report", "a")[0] == 0 and Path("runs/a/report/front-cache_bytes.svg").is_file()
    assert "bytes of the decoding cache" in Path("runs/a/report.html").read_text("utf-8")
    said = refused(capsys, "search", "a", "--fresh", "--objective", "loss", "--max", "cache_bytes=1")
    assert "cache_bytes <= 1 B: the minimum is" in said
    assert "allowed: a number >= 0 with no unit, b, kb" in refused(
        capsys, "search", "a", "--fresh", "--objective", "loss", "--max", "cache_bytes=5ms")
