"""`nas retrain`: what it makes, how it goes on, and that a teacher helps."""

import json
import random
from pathlib import Path

import pytest
import torch

from nas import tasks
from nas.core import evaluation as train_stage
from nas.core.config import RunConfig
from nas.core.evaluation import prepare, score
from nas.core.pricing import Prices
from nas.core.run_dir import RunDir
from nas.core.subnet import Subnet
from nas.stages.retrain import job as stage
from nas.stages.retrain.config import SHARE, retrain_recipe
from nas.stages.retrain.request import RetrainRequest
from nas.stages.train.training import train_supernet
from supernet import Transformer
from supernet.train.fit import Silent
from supernet.train.recipe import Recipe
from supernet.train.step import Trainer
from tests.nas.runs import interrupted, nas, refused
from tests.nas.subnets import write_extracted

pytestmark = pytest.mark.usefixtures("here")
LIVELY = {"steps": 8, "dropout": 0.2, "accumulate": 2, "ema": 0.9, "checkpoint_every": 3, "evaluate_every": 3}
"""Settings that make every kind of chance and state matter."""
WAYS = {"plain": ["--teacher", "none"], "distilled": ["--distill", "logits,features,attention"],
        "theseus": ["--theseus"], "scratch": ["--init", "scratch"]}


def sets(**settings):
    return [f"--set={key}={value}" for key, value in settings.items()]


def learned(folder):
    """The bytes of what was learned and of what is known of it."""
    return [(Path(folder) / name).read_bytes() for name in ("model.safetensors", "metrics.json")]


def rows(folder):
    text = (Path(folder) / "metrics.csv").read_text("utf-8")
    return sorted(row for row in text.splitlines() if "tokens_per_s" not in row)


def work_of(out):
    """The work folder of a result."""
    return next(path.parent for path in Path("runs/a/retraining").glob("*/settings.json")
                if json.loads(path.read_text("utf-8"))["out"] == f"subnets/{out}")


@pytest.fixture
def subnet(finished):
    finished()
    return write_extracted("a")


class TestResult:
    def test_it_is_a_subnet_with_its_history(self, capsys, subnet):
        code, out, err = nas(capsys, "retrain", str(subnet.path), *sets(steps=4))
        assert (code, err) == (0, "")
        made = Subnet.open(f"a/{subnet.path.name}-retrained")
        assert str(made.path) in out and "loss before" in out
        assert made.arch == subnet.arch
        assert made.facts.costs == Prices({}, made.arch.context).all_of(made.arch)
        assert [each.stage for each in made.facts.made] == ["extract", "retrain"]
        told = made.facts.made[-1].settings
        assert (told["init"], told["teacher"], told["distill"], told["steps"]) == (
            "inherit", "supernet", ["logits"], 4)
        prepared = prepare(RunDir.open("a"))
        metrics = score(made.model(), made.arch, tasks.get("lm"), prepared, Recipe(batch_size=2, device="cpu"))
        assert made.facts.metrics == pytest.approx(metrics, rel=1e-6)
        assert made.facts.metrics != subnet.facts.metrics
        assert (made.path / "README.md").is_file()

    def test_curves_stay_and_checkpoints_go(self, capsys, subnet):
        assert nas(capsys, "retrain", str(subnet.path), "--distill", "logits,features", *sets(steps=4))[0] == 0
        work = work_of(f"{subnet.path.name}-retrained")
        assert work.name.startswith(f"{subnet.path.name}-")
        assert not (work / "checkpoints").exists()
        names = {row.split(",")[1] for row in rows(work)[:-1]}
        assert {"train/loss_labels", "train/loss_logits", "train/loss_features", "valid/model/loss"} <= names

    def test_asked_again_it_is_done_already(self, capsys, subnet):
        command = ["retrain", str(subnet.path), *sets(steps=2)]
        nas(capsys, *command)
        made = learned(f"{subnet.path}-retrained")
        code, out, _ = nas(capsys, *command)
        assert code == 0 and "is already retrained" in out
        code, out, _ = nas(capsys, *command, "--json")
        assert json.loads(out)["subnets"][0]["folder"] == f"{subnet.path}-retrained"
        assert learned(f"{subnet.path}-retrained") == made
        says = refused(capsys, *command, *sets(lr=0.5))
        assert "exists, retrained with other settings or inputs; delete it, or name another folder" in says

    def test_json_has_everything(self, capsys, subnet):
        code, out, _ = nas(capsys, "retrain", str(subnet.path), "--out", "mine", "--json", *sets(steps=2))
        (found,) = json.loads(out)["subnets"]
        assert code == 0 and found["folder"] == "mine" and found["key"] == subnet.arch.key
        assert found["before"] == subnet.facts.metrics and found["metrics"] == Subnet.open("mine").facts.metrics

    def test_a_result_can_be_retrained_and_teach(self, capsys, subnet):
        assert nas(capsys, "retrain", str(subnet.path), "--out", "one", "--teacher", "none", *sets(steps=2))[0] == 0
        assert nas(capsys, "retrain", "one", "--out", "two", "--teacher", str(subnet.path), *sets(steps=2))[0] == 0
        made = Subnet.open("two").facts.made
        assert [each.stage for each in made] == ["extract", "retrain", "retrain"]
        assert made[-1].settings["teacher"] == subnet.path.name

    def test_scratch_begins_with_fresh_weights(self, subnet):
        prepared = prepare(RunDir.open("a"))
        jobs = [stage.make_job(subnet, prepared, RetrainRequest(subnet="", init=init, teacher="none", out=init))
                for init in ("inherit", "scratch")]
        inherit, scratch = (dict(stage.make_trainer(job, prepared).model.state_dict()) for job in jobs)
        kept = subnet.model().state_dict()
        fresh = Transformer(subnet.arch, seed=0).state_dict()
        assert all(torch.equal(inherit[name], kept[name]) for name in kept)
        assert all(torch.equal(scratch[name], fresh[name]) for name in kept)

    def test_the_teacher_is_the_largest_on_the_supernets_weights(self, subnet):
        prepared = prepare(RunDir.open("a"))
        trainer = stage.make_trainer(stage.make_job(subnet, prepared, RetrainRequest(subnet="")), prepared)
        teacher = trainer.training_loss.teacher.model
        assert teacher.arch == prepared.space.largest() and not teacher.training
        config = RunDir.open("a").config().training
        wanted = score(train_stage.load_supernet(RunDir.open("a"), prepared.space), teacher.arch, tasks.get("lm"),
                       prepared, config)
        assert score(teacher, teacher.arch, tasks.get("lm"), prepared, config) == pytest.approx(wanted)

    def test_with_theseus_the_frame_is_the_predecessors(self, subnet):
        prepared = prepare(RunDir.open("a"))
        request = RetrainRequest(subnet="", init="scratch", theseus=True, training={"steps": 4})
        job = stage.make_job(subnet, prepared, request)
        trainer = stage.make_trainer(job, prepared)
        kept = subnet.model().state_dict()
        same = {name for name, tensor in trainer.model.state_dict().items() if torch.equal(tensor, kept[name])}
        assert {name for name in kept if not name.startswith("decoder.0")} <= same
        assert any(name not in same for name in kept)
        assert trainer.training_loss.theseus.until == 2 and set(trainer.training_loss.parts) == {"labels", "logits"}


class TestGoingOn:
    @pytest.mark.parametrize("way", WAYS)
    def test_a_stopped_one_ends_as_one_that_was_not(self, capsys, monkeypatch, subnet, way):
        command = ["retrain", str(subnet.path), *WAYS[way], *sets(**LIVELY)]
        assert nas(capsys, *command, "--out", "runs/a/subnets/straight")[0] == 0
        stopped = [*command, "--out", "runs/a/subnets/stopped"]
        code, out, err = interrupted(capsys, monkeypatch, stopped, at=2)
        assert (code, err) == (130, "")
        assert "stopped after step 2; resume with: nas retrain" in out and "--set steps=8" in out
        assert interrupted(capsys, monkeypatch, stopped, at=5)[0] == 130
        code, out, _ = nas(capsys, *stopped)
        assert code == 0 and "resuming after step 5 of 8" in out
        one, two = learned("runs/a/subnets/straight"), learned("runs/a/subnets/stopped")
        assert one[0] == two[0]
        assert json.loads(one[1])["made"][-1]["metrics"] == json.loads(two[1])["made"][-1]["metrics"]
        assert rows(work_of("straight")) == rows(work_of("stopped"))

    def test_the_command_it_prints_goes_on(self, capsys, monkeypatch, subnet):
        command = ["retrain", str(subnet.path), "--init", "scratch", "--theseus", "--teacher", "none", *sets(steps=4)]
        _, out, _ = interrupted(capsys, monkeypatch, command, at=2)
        printed = out.split("resume with: nas ")[1].split()
        code, out, _ = nas(capsys, *printed)
        assert code == 0 and "resuming after step 2 of 4" in out

    def test_a_changed_setting_or_input_is_named(self, capsys, monkeypatch, subnet):
        command = ["retrain", str(subnet.path), *sets(steps=4)]
        assert interrupted(capsys, monkeypatch, command, at=2)[0] == 130
        err = refused(capsys, *command, "--set", "temperature=3", "--init", "scratch")
        assert "is not finished: temperature is 1.0, requested: 3.0; resume it with the same settings, delete" in err
        assert "is not finished: init is inherit, requested: scratch; resume it with the same settings, delete" in err
        weights = Path("runs/a/supernet.safetensors")
        content = weights.read_bytes()
        weights.write_bytes(content[:-4] + b"\0\0\0\0")
        assert "the weights of the supernet changed since it was started; resume" in refused(capsys, *command)
        weights.write_bytes(content)
        assert nas(capsys, *command, "--set", "keep=1", "--set", "log_every=2")[0] == 0

    def test_early_stopping_takes_the_best_weights(self, capsys, monkeypatch, subnet):
        losses = iter([3.0, 1.0, 2.0, 2.0])
        monkeypatch.setattr(stage, "evaluator", lambda *_, **__: lambda trainer: {"loss": next(losses)})
        kept = []
        honest = Trainer.note_evaluation

        def note(self, loss):
            kept.append({name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()})
            honest(self, loss)

        monkeypatch.setattr(Trainer, "note_evaluation", note)
        code, out, _ = nas(capsys, "retrain", str(subnet.path), "--out", "made",
                           *sets(steps=50, evaluate_every=1, patience=2))
        assert code == 0 and "stopped early: no better loss since step 2" in out
        found = Subnet.open("made").model().state_dict()
        assert all(torch.equal(found[name], kept[1][name]) for name in found)


class TestTop:
    def test_the_best_extracted_ones_are_retrained_in_turn(self, capsys, monkeypatch, finished):
        finished()
        space = prepare(RunDir.open("a")).space
        archs = {arch.key: arch for arch in (space.sample(random.Random(seed)) for seed in range(4))}
        subnets = sorted((write_extracted("a", arch) for arch in archs.values()),
                         key=lambda subnet: subnet.facts.metrics["loss"])
        command = ["retrain", "a", "--top", "2", "--teacher", "none", *sets(steps=2)]
        done = []
        honest = stage.Checkpoints.load_newest

        def load(self, trainer):
            done.append(trainer.model.arch.key)
            if len(done) == 2:
                raise KeyboardInterrupt
            return honest(self, trainer)

        with monkeypatch.context() as patch:
            patch.setattr(stage.Checkpoints, "load_newest", load)
            assert nas(capsys, *command)[0] == 130
        code, out, _ = nas(capsys, *command, "--json")
        assert code == 0 and done == [subnet.arch.key for subnet in subnets[:2]]
        assert [each["key"] for each in json.loads(out)["subnets"]] == done
        code, out, _ = nas(capsys, "retrain", "a", "--top", "9", "--teacher", "none", *sets(steps=2))
        assert code == 0 and "note: only 4 extracted subnets exist" in out

    def test_options_that_do_not_go_together(self, capsys, subnet):
        assert "--out: names the folder of one result" in refused(capsys, "retrain", "a", "--top", "2", "--out", "x")
        assert "need several subnets; add --top" in refused(capsys, "retrain", str(subnet.path), "--ray", "local")
        assert "needs a cluster; add --ray" in refused(capsys, "retrain", "a", "--top", "2", "--concurrency", "2")


FAMILIES = {
    "classification": ("train.csv", "text,label\n" + "".join(f"{w} {w} x{i % 3},{c}\n" for i in range(20) for w, c in (
        ("red", "warm"), ("blue", "cold"), ("sun", "warm"))), """
{schema_version: 1, name: c, family: encoder, vocab_size: 60, context: 8, width: [8, 12], n_classes: 2,
 embedding: {lookup: {}}, head: {classifier: {}},
 encoder: {slots: 3, depth: {keep: first, layers: [2, 3]}, layers: {plain: {
   mixer: {attention: {n_heads: [1, 2]}}, ffn: {ffn: {inner: [1x, 2x]}}}}}}"""),
    "translation": ("train.tsv", "source\ttarget\n" + "".join(f"a{i} b{i}\tb{i} a{i}\n" for i in range(40)), """
{schema_version: 1, name: s, family: seq2seq, vocab_size: 60, context: 12, width: [8, 12],
 embedding: {lookup: {}}, head: {tied: {}},
 encoder: {slots: 2, depth: {keep: first, layers: [1, 2]}, layers: {plain: {
   mixer: {attention: {n_heads: [1, 2]}}, ffn: {ffn: {inner: 2x}}}}},
 decoder: {slots: 3, depth: {keep: every_other, layers: [1, 3]}, layers: {plain: {
   mixer: {attention: {n_heads: 2}}, cross: {cross_attention: {n_heads: 2}}, ffn: {ffn: {inner: 2x}}}}}}"""),
}


@pytest.mark.parametrize("task", FAMILIES)
def test_other_families_are_retrained_too(capsys, task):
    name, text, space = FAMILIES[task]
    Path(name).write_text(text, "utf-8")
    Path("family.yaml").write_text(space, "utf-8")
    config = RunConfig(space="family.yaml", task=task, data={"train": name, "vocab_size": "24"},
                       training=Recipe(steps=2, batch_size=4, device="cpu", evaluate_every=0))
    run = RunDir.create("f", config)
    train_supernet(run, Silent())
    subnet = write_extracted("f")
    for out, way in (("one", ["--distill", "logits,features,attention"]), ("two", ["--theseus"])):
        code, _, err = nas(capsys, "retrain", str(subnet.path), "--out", out, *way, *sets(steps=4))
        assert (code, err) == (0, "")
        assert Subnet.open(out).facts.metrics.keys() == tasks.get(task).metrics.keys()


def test_the_recipe_is_a_share_of_the_runs():
    base = Recipe(steps=1000, warmup=100, strategy="sandwich", layerdrop=0.2, ema=0.9, patience=3)
    made = retrain_recipe(base, {})
    assert (made.steps, made.warmup, made.layerdrop, made.ema, made.patience) == (1000 // SHARE, 25, 0.0, 0.9, 3)
    assert retrain_recipe(base, {"steps": 500}).warmup == 50
    assert retrain_recipe(base, {"steps": "500", "warmup": "7"}).warmup == 7
