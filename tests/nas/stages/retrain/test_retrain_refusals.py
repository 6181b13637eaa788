"""What `nas retrain` refuses: one sentence each, and nothing is left behind."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nas.core.evaluation import prepare
from nas.core.run_dir import RunDir
from nas.core.subnet import HistoryStep, write_subnet
from nas.stages.retrain import job as stage
from supernet import Transformer
from tests.nas.runs import full_disk, nas, refused
from tests.nas.subnets import write_extracted

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def subnet(finished):
    finished()
    return write_extracted("a")


def copied(subnet, name, **changes):
    """Another folder of a subnet; of `metrics.json`, some facts changed."""
    folder = shutil.copytree(subnet.path, Path("runs/a/subnets", name))
    facts = json.loads((folder / "metrics.json").read_text("utf-8"))
    (folder / "metrics.json").write_text(json.dumps({**facts, **changes}), "utf-8")
    return folder


def refuses(capsys, *argv):
    """One sentence, and no trace of a retraining."""
    err = refused(capsys, "retrain", *map(str, argv))
    assert not Path("runs/a/retraining").exists()
    assert len(err.splitlines()) == 1, err
    return err


@pytest.mark.parametrize(("options", "says"), [
    (["--distill", "logits,feature"], "--distill: 'feature' is not allowed; allowed: logits, features, attention"),
    (["--distill", ""], "--distill: '' is not allowed"),
    (["--teacher", "none", "--distill", "features"], "--distill: features needs a teacher; leave out --teacher none"),
    (["--teacher", "none", "--distill", "attention"], "--distill: attention needs a teacher"),
    (["--theseus", "--distill", "features"], "use --distill logits"),
    (["--init", "warm"], "init: 'warm' is not allowed: input should be 'inherit', 'model' or 'scratch'"),
    (["--teacher", "nobody"], "nobody: is not the folder of a subnet"),
    (["--set", "temprature=2"], "--set: temprature: unknown setting; allowed: temperature, label_share,"),
    (["--set", "temperature=0"], "temperature: '0' is not allowed: input should be greater than 0"),
    (["--set", "steps=0"], "--set: steps: '0' is not allowed"),
    (["--set", "strategy=single"], "--set: strategy: applies to supernets only; a subnet is one architecture"),
    (["--set", "theseus_share=0.5"], "theseus_share: has no effect without --theseus"),
    (["--distill", "features", "--set", "temperature=2"], "temperature: has no effect without --distill logits"),
    (["--teacher", "none", "--set", "fade=false"], "fade: has no effect without a teacher"),
    (["--distill", "features", "--set", "layerdrop=0.1"], "layerdrop: drops layers that are compared"),
    (["--set", "device=abacus"], "device: 'abacus' cannot be used"),
])
def test_options_that_cannot_be(capsys, subnet, options, says):
    assert says in refuses(capsys, subnet.path, *options)


def test_a_teacher_with_another_vocabulary(capsys, subnet):
    teacher = copied(subnet, "other")
    tokenizer = json.loads((teacher / "tokenizer.json").read_text("utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    one, two = list(vocabulary)[-2:]
    vocabulary[one], vocabulary[two] = vocabulary[two], vocabulary[one]
    (teacher / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    err = refuses(capsys, subnet.path, "--teacher", teacher)
    assert f"--teacher: {teacher} has a different vocabulary than {subnet.path}" in err


def test_a_teacher_of_other_labels(capsys, subnet):
    teacher = copied(subnet, "other", labels=["good", "bad"])
    assert "has different labels" in refuses(capsys, subnet.path, "--teacher", teacher)


def test_an_architecture_of_another_space_has_no_supernet_to_learn_from(capsys, subnet):
    prepared = prepare(RunDir.open("a"))
    layer = subnet.arch.decoder[0]
    ffn = layer.ffn.of("ffn", {**dict(layer.ffn.dims), "inner": 99})
    wide = replace(subnet.arch, decoder=(replace(layer, ffn=ffn),))
    facts = subnet.facts.model_copy(update={"key": wide.key})
    other = write_subnet(Path("runs/a/subnets/wide"), Transformer(wide, seed=0), prepared.tokenizer, facts)
    for options in ([], ["--theseus", "--teacher", "none"]):
        assert f"architecture {wide.key[:12]} is not in space toy" in refuses(capsys, other.path, *options)
    assert nas(capsys, "retrain", str(other.path), "--teacher", str(subnet.path), "--set", "steps=1")[0] == 0
    pruned = facts.then(HistoryStep(stage="compress"))
    write_subnet(Path("runs/a/subnets/pruned"), Transformer(wide, seed=0), prepared.tokenizer, pruned)
    assert nas(capsys, "retrain", "a/pruned", "--set", "steps=1")[0] == 0


def test_the_largest_has_nobody_whose_place_it_could_take(capsys, subnet):
    largest = write_extracted("a", prepare(RunDir.open("a")).space.largest())
    assert "there is no larger model whose layers it could replace" in refuses(capsys, largest.path, "--theseus")


def test_a_damaged_folder(capsys, subnet):
    weights = subnet.path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    assert f"{weights}: cannot be read" in refuses(capsys, subnet.path)
    assert nas(capsys, "retrain", str(subnet.path), "--init", "scratch", "--set", "steps=1")[0] == 0
    (subnet.path / "metrics.json").write_text("{", "utf-8")
    assert "metrics.json: not valid JSON at line 1, column 2" in refused(capsys, "retrain", str(subnet.path))


def test_a_teacher_that_is_damaged(capsys, subnet):
    teacher = copied(subnet, "other")
    (teacher / "model.safetensors").unlink()
    assert "model.safetensors: cannot be read (No such file or directory)" in refuses(
        capsys, subnet.path, "--teacher", teacher)


def test_what_training_would_undo(capsys, subnet):
    folder = copied(subnet, "small")
    (folder / "quantisation.json").write_text('{"scheme": "int8"}', "utf-8")
    assert f"{folder}: has quantised or pruned weights, which training would undo" in refuses(capsys, folder)


def test_a_result_that_exists(capsys, subnet):
    Path("mine").mkdir()
    assert "mine: exists; delete it, or name another folder with --out" in refuses(capsys, subnet.path, "--out", "mine")


def test_a_place_where_nothing_can_be_made(capsys, subnet):
    err = refuses(capsys, subnet.path, "--out", "text.txt/mine")
    assert "text.txt is not writable" in err


def test_a_disk_that_is_full_at_the_end(capsys, monkeypatch, subnet):
    command = ["retrain", str(subnet.path), "--teacher", "none", "--out", "mine", "--set", "steps=1"]
    honest = stage.write_derived

    def write(*args):
        with full_disk():
            return honest(*args)

    with monkeypatch.context() as patch:
        patch.setattr(stage, "write_derived", write)
        assert "nas: mine: cannot be written (" in refused(capsys, *command)
    assert not Path("mine").exists() and not list(Path().glob(".mine*"))
    assert nas(capsys, *command)[0] == 0


def test_a_supernet_that_is_not_trained(capsys, subnet):
    Path("runs/a/supernet.safetensors").unlink()
    assert "training of the supernet is not finished; run nas train --resume runs/a" in refuses(capsys, subnet.path)
    assert nas(capsys, "retrain", str(subnet.path), "--teacher", "none", "--set", "steps=1")[0] == 0


def test_a_damaged_retraining(capsys, subnet):
    work = Path("runs/a/retraining/other")
    (work / "checkpoints/step-00000001").mkdir(parents=True)
    (work / "settings.json").write_text("{", "utf-8")
    err = refused(capsys, "retrain", str(subnet.path))
    assert "settings.json: not valid JSON" in err and f"; delete {work} to start again" in err


def test_a_run_without_extracted_subnets(capsys, finished):
    finished()
    assert "runs/a: has no extracted subnets; run nas extract a --top 3" in refuses(capsys, "a", "--top", "3")
