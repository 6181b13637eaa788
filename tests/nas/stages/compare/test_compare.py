"""`nas compare`: figures of single models side by side, and what cannot be compared."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from nas import api
from nas.core.costs import count
from nas.core.evaluation import load_supernet, prepare
from nas.core.run_dir import RunDir
from nas.core.subnet import HistoryStep, Subnet, SubnetFacts, write_subnet
from nas.testing import small_subnets
from search_spaces import Architecture, load_space
from supernet import Transformer, extract
from tests import shipments
from tests.nas.runs import nas, refused
from tests.nas.stages.profile.made_up import made_up_machine, profile  # noqa: F401 - a fixture, used by tests here


def of_run(folder: str, arch: Architecture) -> Subnet:
    """An architecture of the run `a` as a subnet."""
    run = RunDir.open("a")
    prepared, config = prepare(run), run.config()
    facts = SubnetFacts(key=arch.key, task=config.task, run=str(run.path), data=config.data,
                        made=(HistoryStep(stage="extract"),))
    return write_subnet(Path(folder), extract(load_supernet(run, prepared.space), arch), prepared.tokenizer, facts)


def without_run(folder: str, model: Transformer, task: str = "") -> Subnet:
    """An imported model."""
    made = (HistoryStep(stage="import", settings={"source": "x"}),)
    facts = SubnetFacts(key=model.arch.key, task=task, run="", made=made)
    return write_subnet(Path(folder), model, small_subnets.tokenizer(model.arch.vocab_size), facts)


@pytest.fixture
def two(here: Path, finished: Callable[[], None]) -> tuple[Subnet, Subnet]:
    """The largest and the smallest of a run."""
    finished()
    space = prepare(RunDir.open("a")).space
    return of_run("large", space.largest()), of_run("small", space.smallest())


def test_figures_are_those_of_single_models(capsys, two) -> None:
    imported = without_run("imported", Transformer(small_subnets.space("lm").smallest(), seed=0), "lm")
    code, out, err = nas(capsys, "compare", "large", "small", "imported", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    length = min(subnet.arch.context for subnet in (*two, imported))
    assert (found["task"], found["split"], found["seq_len"]) == ("lm", "valid", length)
    for row, subnet in zip(found["models"], two):
        cost = count(subnet.arch, length)
        assert row["model"] == subnet.path.name
        assert (row["params"], row["macs"], row["weight_bytes"]) == (cost.params, cost.macs, cost.weight_bytes)
        assert row["perplexity"] == pytest.approx(api.evaluate(subnet)[subnet.path.name]["perplexity"])
    assert "perplexity" not in found["models"][2] and "imported is not evaluated: " in found["notes"][0]
    table = list(csv.DictReader(Path("comparison", "compare.csv").read_text().splitlines()))
    assert [row["model"] for row in table] == ["large", "small", "imported"] and table[2]["perplexity"] == ""
    assert float(table[0]["loss"]) == found["models"][0]["loss"]
    assert json.loads(Path("comparison", "compare.json").read_text())["models"] == found["models"]
    drawn = Path("comparison", "compare.svg").read_text()
    assert ">large<" in drawn and ">perplexity on valid<" in drawn and Path("comparison", "compare.png").exists()


def test_latencies_are_measured(capsys, made_up, tmp_path, monkeypatch) -> None:  # noqa: F811
    assert profile() == 0
    space = load_space("lm-tiny")
    for name, arch in {"a": space.largest(), "b": space.sample(random.Random(1))}.items():
        shipments.ship(Transformer(arch, seed=0), Path(name))
    found = api.compare(["./a", "./b"], ["made-up"], out="other")
    assert all(row["latency:made-up"] > 0 for row in found)
    assert Subnet.open("b").facts.measured["latency:made-up"].measured_ms == found[1]["latency:made-up"]
    assert "latency on made-up" in Path("other", "compare.svg").read_text()
    code, out, _ = nas(capsys, "compare", "a", "b", "--device", "made-up")
    assert code == 0 and "x)" in out and "note: a is not evaluated" in out


def test_what_cannot_be_compared_is_refused(capsys, two) -> None:
    without_run("other", Transformer(small_subnets.space("encoder").smallest(), seed=0), "classification")
    says = refused(capsys, "compare", "large", "other")
    assert "models of different tasks cannot be compared: large is for lm, other is for classification" in says
    says = refused(capsys, "compare", "large", "small", "./small")
    assert "./small is given twice; give every model once" in says
    says = refused(capsys, "compare", "nosuch", "large", "gone")
    assert "nosuch: is not the folder of a subnet" in says and "gone: is not the folder of a subnet" in says
    assert "nas profile cpu-onnxruntime" in refused(capsys, "compare", "large", "--device", "cpu-onnxruntime")
    assert "--seq-len: 9 is not allowed; allowed: 1 to 8" in refused(capsys, "compare", "large", "--seq-len", "9")
    assert "'train' is not allowed; allowed: valid, test" in refused(capsys, "compare", "large", "--split", "train")
    assert not Path("comparison").exists()


def test_equal_names_of_different_folders_stay_apart(capsys, two) -> None:
    Path("other").mkdir()
    Path("small").rename("other/large")
    code, out, _ = nas(capsys, "compare", "large", "other/large", "--json")
    assert code == 0 and [row["model"] for row in json.loads(out)["models"]] == ["large", "other/large"]
