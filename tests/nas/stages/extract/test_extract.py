"""Extraction: the supernet's outputs in a folder that needs nothing else, or no folder at all."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from nas.core.evaluation import load_supernet, prepare
from nas.core.run_dir import RunDir
from nas.core.subnet import Subnet
from nas.stages.extract import run as stage
from supernet import Transformer
from supernet.inference import run_model
from tests.nas.families import TASKS, only
from tests.nas.runs import nas, refused
from tests.nas.stages.search.made_up import write_profile

FILES = ["README.md", "architecture.json", "metrics.json", "model.safetensors", "tokenizer.json"]
ALONE = """
import sys, torch
from pathlib import Path
from safetensors.torch import load_file
from supernet import Transformer
assert not Path("runs").exists()
for folder in sys.argv[1:]:
    kept = load_file(Path(folder) / "expected.safetensors")
    inputs = [kept[name] for name in ("tokens", "target") if name in kept]
    masks = {name: kept[name].bool() for name in ("mask", "target_mask") if name in kept}
    with torch.no_grad():
        found = Transformer.from_pretrained(folder)(*inputs, **masks)
    assert torch.equal(found, kept["logits"]), folder
"""


def there(run: str) -> list[str]:
    return sorted(path.name for path in Path("runs", run, "subnets").iterdir() if path.name != ".lock")


def test_subnets_of_every_family_load_alone_with_the_supernets_outputs(subnets: dict[str, Path]) -> None:
    for task, folder in subnets.items():
        assert sorted(path.name for path in folder.iterdir()) == FILES
        run = RunDir.open(task)
        prepared, arch = prepare(run), Subnet.open(str(folder)).arch
        batch = next(iter(prepared.valid.in_order(4, 4)))
        with torch.no_grad():
            logits = run_model(load_supernet(run, prepared.space), arch, batch)
        assert folder.name == arch.key[:12] and arch in prepared.space
        kept = {"logits": logits, "tokens": batch.tokens, "target": batch.target, "mask": batch.mask,
                "target_mask": batch.target_mask}
        save_file({name: tensor.contiguous() for name, tensor in kept.items() if tensor is not None},
                  folder / "expected.safetensors")
        shutil.move(folder, task)
    shutil.rmtree("runs")
    subprocess.run([sys.executable, "-c", ALONE, *TASKS], check=True, timeout=300)


@pytest.mark.parametrize("task", TASKS)
def test_what_is_known_of_it_is_true(task: str, subnets: dict[str, Path], capsys: Any) -> None:
    subnet = Subnet.open(str(subnets[task]))
    code, out, err = nas(capsys, "evaluate", str(subnets[task]), "--json")
    (metrics,) = json.loads(out)["architectures"].values()
    assert (code, err) == (0, "") and metrics == subnet.facts.metrics
    code, out, _ = nas(capsys, "evaluate", task, str(subnets[task]), "--json")
    (inside,) = json.loads(out)["architectures"].values()
    assert inside == pytest.approx(metrics), "the same on the supernet's weights"
    facts = subnet.facts
    assert facts.costs["params"] == sum(tensor.numel() for tensor in subnet.model().parameters())
    assert f"latency:on-{task}" in facts.costs
    assert (facts.task, facts.run, facts.key) == (task, f"runs/{task}", subnet.arch.key)
    assert facts.made[0].settings["difference_to_supernet"] <= stage.TOLERANCE
    assert len(facts.labels) == (2 if task == "classification" else 0)
    assert nas(capsys, "evaluate", str(subnets[task]), "--split", "test", "--limit", "2")[0] == 0


def test_ways_to_choose(families: Path, capsys: Any) -> None:
    code, out, err = nas(capsys, "extract", "lm", "--all-pareto", "--json")
    assert (code, err) == (0, "")
    pareto = json.loads(nas(capsys, "pareto", "lm", "--json")[1])["fronts"]["on-lm"]
    found = json.loads(out)["subnets"]
    assert [each["key"] for each in found] == [each["key"] for each in pareto]
    assert there("lm") == sorted(Path(each["folder"]).name for each in found)

    key = found[0]["key"]
    code, out, _ = nas(capsys, "extract", "lm", "--key", key[:6])
    assert code == 0 and "unchanged" in out and f"nas retrain runs/lm/subnets/{key[:12]}" in out
    assert "cannot be combined" in refused(capsys, "extract", "lm", "--knee", "--all-pareto")
    assert "--max params=" in refused(capsys, "extract", "lm", "--max", "params=3")
    assert "note: only 8 architectures exist" in nas(capsys, "extract", "lm", "--top", "99")[1]


def test_a_run_that_was_not_searched_says_so(here: Path, finished: Any, capsys: Any) -> None:
    finished()
    assert "run nas search a" in refused(capsys, "extract", "a", "--knee")
    assert "runs here: a" in refused(capsys, "extract", "b", "--knee")


def test_what_is_there_is_kept_and_gets_the_costs_of_new_devices(families: Path, capsys: Any) -> None:
    assert nas(capsys, "extract", "lm", "--knee")[0] == 0
    folder = only("lm")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    code, out, _ = nas(capsys, "extract", "lm", "--key", folder.name)
    assert code == 0 and "unchanged" in out
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    write_profile(prepare(RunDir.open("lm")).space, "new", seed=3)
    code, out, _ = nas(capsys, "extract", "lm", "--key", folder.name, "--device", "new", "--json")
    assert code == 0 and json.loads(out)["subnets"][0]["kept"]
    assert "latency:new" in Subnet.open(str(folder)).facts.costs and "| new | prefill |" in (
        folder / "README.md").read_text("utf-8")
    assert (folder / "model.safetensors").read_bytes() == before["model.safetensors"]
    (folder / "model.safetensors").write_bytes(before["model.safetensors"][:100])
    assert "delete it to extract it again" in refused(capsys, "extract", "lm", "--key", folder.name)


@pytest.mark.parametrize("change", [1e3, float("nan")])
def test_other_outputs_than_the_supernets_are_not_written(change: float, families: Path, capsys: Any,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    def spoilt(*arguments: Any) -> Transformer:
        model = honest(*arguments)
        with torch.no_grad():
            next(model.parameters()).view(-1)[0] += change
        return model

    honest = stage.extract
    monkeypatch.setattr(stage, "extract", spoilt)
    code, out, err = nas(capsys, "extract", "translation", "--knee")
    assert code == 1 and "differ from the supernet's by" in err and "Traceback" not in err
    assert there("translation") == []


def test_nothing_half_written_stays_behind(families: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_off(subnet: Subnet) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("nas.core.model_card.write_card", cut_off)
        assert "cannot be written (No space left on device)" in refused(capsys, "extract", "lm", "--knee")
    assert there("lm") == []
    assert nas(capsys, "extract", "lm", "--knee")[0] == 0
    (folder,) = there("lm")
    shutil.move(f"runs/lm/subnets/{folder}", f"runs/lm/subnets/.{folder}.0123abcd")  # as a kill would leave it
    assert nas(capsys, "extract", "lm", "--knee")[0] == 0
    assert there("lm") == [folder]
