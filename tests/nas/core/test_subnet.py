"""A subnet's folder that is cut short, tampered with or of something else: one sentence, whatever is asked of it."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from nas.core.run_dir import RunDir
from nas.core.subnet import FACTS, Subnet, write_subnet
from nas.stages.measure.run import open_subnets
from nas.stages.retrain.run import best_subnets
from search_spaces import InputError
from search_spaces.files import ARCHITECTURE
from supernet import Transformer
from supernet.pretrained import WEIGHTS
from tests.nas.runs import nas, refused


def cut(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-40])


def gone(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def replaced(name: str, pattern: str, by: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        before = (folder / name).read_text("utf-8")
        after = re.sub(pattern, by, before, count=1)
        assert after != before
        (folder / name).write_text(after, "utf-8")

    return change


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """In memory: what is loaded is the file itself, which is written over."""
    return {name: tensor.clone() for name, tensor in load_file(folder / WEIGHTS).items()}


def reshaped(folder: Path) -> None:
    found = weights(folder)
    save_file({**found, next(iter(found)): torch.zeros(3, 5)}, folder / WEIGHTS)


def changed(by: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], None]:
    """One tensor is not what it was."""
    def change(folder: Path) -> None:
        found = weights(folder)
        name = next(iter(found))
        save_file({**found, name: by(found[name])}, folder / WEIGHTS)

    return change


def one_less(folder: Path) -> None:
    found = weights(folder)
    found.popitem()
    save_file(found, folder / WEIGHTS)


def one_more(folder: Path) -> None:
    save_file({**weights(folder), "other": torch.zeros(1)}, folder / WEIGHTS)


def pickled(folder: Path) -> None:
    torch.save(weights(folder), folder / WEIGHTS)


def other_words(folder: Path) -> None:
    data = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    data["model"]["vocab"].popitem()
    data["model"]["merges"] = []
    (folder / "tokenizer.json").write_text(json.dumps(data), "utf-8")


DAMAGES = {
    "weights cut short": (cut(WEIGHTS), "cannot be read"),
    "no weights": (gone(WEIGHTS), "cannot be read (No such file"),
    "weights of another shape": (reshaped, "has the shape [3, 5] instead of"),
    "weights that are no numbers": (changed(lambda each: each.fill_(math.nan)), "contains numbers that are not finite"),
    "weights of another type": (changed(torch.Tensor.half), "has the type torch.float16 instead of torch.float32"),
    "weights of two types": (changed(torch.Tensor.double), "has the type torch.float32 instead of torch.float64"),
    "a tensor missing": (one_less, "is missing"),
    "a tensor too many": (one_more, "other is not a tensor of this architecture"),
    "pickled weights": (pickled, "cannot be read"),
    "architecture cut short": (cut(ARCHITECTURE), "JSON"),
    "no architecture": (gone(ARCHITECTURE), "is not a subnet"),
    "architecture of the same shape": (replaced(ARCHITECTURE, '"activation":"[a-z]+"', '"activation":"silu"'),
                                       "is the architecture"),
    "architecture of other numbers": (replaced(ARCHITECTURE, '"width":[0-9]+', '"width":9'), "architecture.json"),
    "no facts": (gone(FACTS), "cannot be read (No such file"),
    "facts cut short": (cut(FACTS), "not valid JSON at line"),
    "facts of another kind": (replaced(FACTS, '"made"', '"done"'), "is damaged (done: "),
    "facts of a newer program": (replaced(FACTS, '"schema_version": 1', '"schema_version": 2'), "schema_version"),
    "no tokenizer": (gone("tokenizer.json"), "cannot be read (No such file"),
    "tokenizer cut short": (cut("tokenizer.json"), "cannot be read (the file is damaged)"),
    "tokenizer of other words": (other_words, "has 59 tokens, but the model has a vocabulary of 60"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_told_in_one_sentence(name: str, subnets: dict[str, Path], capsys: Any) -> None:
    damage, says = DAMAGES[name]
    folder = subnets["lm"]
    damage(folder)
    before = sorted(folder.iterdir())
    for command in (("generate", str(folder), "the"), ("evaluate", str(folder))):
        said = refused(capsys, *command)
        assert says in said and len(said.splitlines()) == 1
    assert sorted(folder.iterdir()) == before


def test_a_folder_needs_its_own_data_to_be_judged(subnets: dict[str, Path], capsys: Any) -> None:
    other = Path("runs/translation/subnets", subnets["lm"].name)
    shutil.copytree(subnets["lm"], other)
    assert "a different vocabulary than the data of runs/translation" in refused(capsys, "evaluate", str(other))
    shutil.copytree(subnets["lm"], "away")
    shutil.copytree(subnets["lm"], "project/models/small")
    Path("project/config.yaml").write_text("colour: red", "utf-8")
    assert nas(capsys, "evaluate", "project/models/small", "--limit", "2")[0] == 0, "not every config is a run's"
    assert nas(capsys, "evaluate", "./away", "--limit", "2")[0] == 0, "its run is found where it was"
    assert "has one architecture" in refused(capsys, "evaluate", "away", str(subnets["lm"]))
    shutil.rmtree("runs/lm")
    assert "its run runs/lm does not exist here" in refused(capsys, "evaluate", "away")
    assert nas(capsys, "generate", "away", "the")[0] == 0


def test_a_subnet_is_named_by_its_folder_or_its_run_and_key(subnets: dict[str, Path], capsys: Any) -> None:
    key = subnets["lm"].name
    for name in (f"runs/lm/subnets/{key}", f"lm/{key}", f"lm/{key[:4]}", f"runs/lm/{key[:4]}"):
        assert Subnet.open(name).path == subnets["lm"]
    made = Path(shutil.copytree(subnets["lm"], f"runs/lm/subnets/{key}-int8"))
    assert Subnet.open(f"lm/{key}").path == Subnet.open(f"lm/{key[:4]}").path == subnets["lm"]
    assert Subnet.open(f"lm/{key[:4]}-int8").path == Subnet.open(f"lm/{key}-i").path == made
    shutil.copytree(subnets["lm"], f"runs/lm/subnets/{key[:4]}")
    shutil.copytree(subnets["lm"], f"runs/lm/subnets/{key[:4]}9")
    assert Subnet.open(f"lm/{key[:4]}").path.name == key[:4]
    assert "matches several subnets" in refused(capsys, "generate", f"lm/{key[:3]}", "the")
    names = ", ".join(sorted([key[:4], f"{key[:4]}9", key, f"{key}-int8"]))
    assert f"subnets of lm: {names}" in refused(capsys, "generate", "lm/zz", "the")
    says = refused(capsys, "generate", "nowhere", "the")
    assert "runs here: classification, lm, translation; subnets here: classification/" in says
    assert f"did you mean lm/{key}?" in refused(capsys, "generate", f"lm{key}", "the")
    assert "it contains no architecture.json" in refused(capsys, "generate", "runs/lm", "the")
    assert "runs here: classification, lm, translation" in refused(capsys, "evaluate", "nowhere")


def test_what_a_killed_process_was_writing_is_no_subnet(subnets: dict[str, Path], capsys: Any) -> None:
    key = subnets["lm"].name
    left = Path(shutil.copytree(subnets["lm"], f"runs/lm/subnets/.{key}.12345678"))
    (left / FACTS).unlink()
    assert [each.path for each in open_subnets(["lm"])] == [subnets["lm"]]
    assert [each.path for each in best_subnets(RunDir.open("lm"), 9)] == [subnets["lm"]]
    assert f"subnets of lm: {key}\n" in refused(capsys, "generate", "lm/zz", "the")


def test_a_folder_that_is_there_is_not_written_over(subnets: dict[str, Path]) -> None:
    subnet = Subnet.open(str(subnets["lm"]))
    before = {path.name: path.read_bytes() for path in subnet.path.iterdir()}
    with pytest.raises(InputError, match="exists"):
        write_subnet(subnet.path, Transformer(subnet.arch), subnet.tokenizer(), subnet.facts)
    assert {path.name: path.read_bytes() for path in subnet.path.iterdir()} == before
    copy = write_subnet(Path("new/folder"), subnet.model(), subnet.tokenizer(), subnet.facts)
    assert {path.name: path.read_bytes() for path in copy.path.iterdir()} == before
