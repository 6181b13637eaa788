"""`nas train` from the command line: a run's files, resuming, stopping, and what can go wrong meanwhile."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
import yaml

from nas import tasks
from nas.core import evaluation as stage
from nas.core.config import RunConfig, read_config
from nas.core.run_dir import RunDir
from search_spaces import load_space
from supernet import Supernet
from supernet.train.checkpoint import load_tensors
from supernet.train.coverage import coverage, least_trained
from supernet.train.recipe import BUDGETS, Recipe
from supernet.train.strategy import Single, Turns
from tests.nas.runs import SETTINGS, interrupted, metrics, nas, options, refused, started, state

pytestmark = pytest.mark.usefixtures("here")




class TestFiles:
    def test_a_run_leaves_its_files_and_says_where(self, capsys):
        out = started(capsys)
        run = Path("runs/a")
        assert {path.name for path in run.iterdir()} >= {
            "config.yaml", "manifest.json", "metrics.csv", "tensorboard", "supernet.safetensors", "space.yaml", "data",
            "checkpoints"}
        assert list((run / "tensorboard").glob("events.out.tfevents.*"))
        assert not [path for path in run.rglob(".*") if path.name != ".lock"]
        assert "trained for 6 steps, 96 tokens: runs/a/supernet.safetensors" in out
        assert "nas rank a" in out
        assert (run / "space.yaml").read_bytes() == Path("space.yaml").read_bytes()

    def test_config_and_manifest_tell_what_went_in(self, capsys):
        started(capsys, seed=3)
        config = yaml.safe_load(Path("runs/a/config.yaml").read_text("utf-8"))
        assert (config["schema_version"], config["space"], config["task"]) == (1, "space.yaml", "lm")
        assert config["data"] == {"train": "text.txt", "vocab_size": "60"}
        assert config["training"] == {**Recipe(**SETTINGS).model_dump(), "seed": 3}
        manifest = json.loads(Path("runs/a/manifest.json").read_text("utf-8"))
        assert manifest["schema_version"] == 1 and manifest["seed"] == 3
        assert len(manifest["space_sha256"]) == len(manifest["data_fingerprint"]) == 64
        (start,) = manifest["starts"]
        assert {"torch", "ray", "optuna"} <= set(start["versions"])
        assert (start["step"], start["workers"], start["ray"], start["device"]) == (0, 1, None, "cpu")

    def test_a_resumed_run_keeps_what_its_manifest_told(self, capsys, finished):
        finished()
        path = Path("runs/a/manifest.json")
        before = {**json.loads(path.read_text("utf-8")), "of an older program": 1}
        path.write_text(json.dumps(before), "utf-8")
        assert nas(capsys, "train", "--resume", "a", "--set", "device=auto")[0] == 0
        after = json.loads(path.read_text("utf-8"))
        assert after == {**before, "starts": [*before["starts"], after["starts"][1]]}
        assert (after["starts"][1]["step"], after["starts"][1]["device"]) == (6, "auto")

    def test_metrics_have_a_row_for_everything(self, capsys):
        started(capsys, log_every=3)
        rows = metrics("a")
        assert {step for step, name, _ in rows if name == "train/loss_largest"} == {3, 6}
        assert {step for step, name, _ in rows if name == "valid/loss"} == {2, 4, 6}
        assert {name for _, name, _ in rows} >= {"train/loss_smallest", "train/grad_norm", "train/lr", "train/skipped",
                                                 "train/tokens_per_s", "valid/largest/perplexity"}
        values = {(step, name): value for step, name, value in rows}
        assert values[6, "valid/loss"] == pytest.approx(
            (values[6, "valid/largest/loss"] + values[6, "valid/smallest/loss"]) / 2)

    def test_only_what_is_trained_is_evaluated_and_named(self, capsys):
        started(capsys, "largest", strategy="largest", steps=2)
        names = {name for _, name, _ in metrics("largest")}
        assert {"train/loss_largest", "valid/largest/loss"} <= names
        assert not any("smallest" in name for name in names)
        started(capsys, "single", strategy="single", steps=2)
        losses = {name for _, name, _ in metrics("single") if name.startswith("train/loss")}
        assert losses == {"train/loss_sample"}

    @pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
    def test_the_weights_are_the_averaged_ones_and_load(self, capsys, precision):
        started(capsys, ema=0.5, patience=0, precision=precision)
        run = RunDir.open("a")
        kept = load_tensors(run.weights_path)
        newest = load_tensors(run.path / "checkpoints/step-00000006/state.safetensors")
        assert all(torch.equal(tensor, newest[f"ema/{name}"]) for name, tensor in kept.items())
        assert any(not torch.equal(tensor, newest[f"model/{name}"]) for name, tensor in kept.items())
        prepared = stage.prepare(run)
        net = stage.load_supernet(run, prepared.space)
        assert isinstance(net, Supernet) and not net.training
        recipe = run.config().training
        found = stage.score(net, prepared.space.largest(), tasks.get("lm"), prepared, recipe, limit=4)
        last = {name: value for step, name, value in metrics("a") if step == 6}
        assert found["loss"] == last["valid/largest/loss"]

    def test_the_space_is_fitted_to_the_data(self, capsys):
        Path("space.yaml").write_text(Path("space.yaml").read_text("utf-8").replace("60", "999"), "utf-8")
        started(capsys)
        assert stage.prepare(RunDir.open("a")).space.vocab_size == 60
        assert load_space("runs/a/space.yaml").vocab_size == 999

    def test_workers_without_a_row_are_refused_before_anything_is_made(self, capsys):
        says = refused(capsys, *options("toy", batch_size=2), "--workers", "3")
        assert "3 workers cannot share a batch_size of 2" in says
        assert not Path("runs/toy").exists()

    def test_a_run_can_stand_anywhere(self, capsys):
        started(capsys, "elsewhere/deep/a")
        assert Path("elsewhere/deep/a/supernet.safetensors").is_file()
        assert nas(capsys, "train", "--resume", "elsewhere/deep/a")[0] == 0


class TestQuality:
    """What `nas train` says at the end of how well the supernet is trained."""

    def test_the_gain_of_probes_decides_on_the_verdict(self, capsys):
        code, out, _ = nas(capsys, *[word for word in options("a", steps=20) if word != "--no-check"])
        assert code == 0
        gains = re.search(r"loss reduction from 10 more steps of training alone: "
                          r"smallest (\S+) nats, largest (\S+) nats; ", out)
        undertrained = max(map(float, gains.groups())) > 0.05
        assert ("the supernet is undertrained: train more steps" in out) == undertrained
        assert ("inherited weights are close to trained ones" in out) != undertrained

    def test_rarely_trained_tensors_are_named(self):
        space = load_space("lm-tiny")
        shares = coverage(Supernet(space), Single(space, 0), 400)
        assert shares.keys() == Supernet(space).state_dict().keys()
        name, share = least_trained(shares)[0]
        assert share < 0.005 and name.startswith("decoder/")
        even = coverage(Supernet(space), Turns(space, 0), 400)
        assert min(even.values()) >= 0.01

    def test_a_plain_training_needs_no_check(self, capsys):
        out = nas(capsys, *[word for word in options("b", strategy="largest") if word != "--no-check"])[1]
        assert "more steps of training alone" not in out


class TestEarlierVersions:
    def test_a_run_without_an_optimiser_in_its_config_was_trained_with_adamw(self, capsys):
        started(capsys)
        path = Path("runs/a/config.yaml")
        config = yaml.safe_load(path.read_text("utf-8"))
        del config["training"]["optimiser"]
        path.write_text(yaml.safe_dump(config), "utf-8")
        assert read_config(path).training.optimiser == "adamw"


class TestResume:
    def test_a_finished_run_stays_as_it_is(self, capsys, finished):
        finished()
        before, rows = state("a"), metrics("a")
        code, out, err = nas(capsys, "train", "--resume", "a")
        assert (code, err) == (0, "")
        assert "runs/a is already fully trained" in out and "resuming" not in out
        assert "trained for 6 steps" in out and "next: nas search a" in out
        assert (state("a"), metrics("a")) == (before, rows)

    def test_weights_that_were_lost_are_written_again(self, capsys, finished):
        finished()
        before = state("a")
        Path("runs/a/supernet.safetensors").unlink()
        assert nas(capsys, "train", "--resume", "a")[0] == 0
        assert state("a") == before

    def test_the_run_needs_its_inputs_no_more(self, capsys, monkeypatch):
        assert interrupted(capsys, monkeypatch, options("a"), at=3)[0] == 130
        Path("space.yaml").unlink()
        Path("text.txt").unlink()
        assert nas(capsys, "train", "--resume", "a")[0] == 0

    @pytest.mark.parametrize(("argv", "says"), [
        (("--set", "steps=9"), "runs/a: steps is 6 in the run, requested: 9; to change it, start a new run"),
        (("--set", "lr=0.5"), "lr is 0.01 in the run, requested: 0.5"),
        (("--data", "train=other.txt"), "data.train is text.txt in the run, requested: other.txt"),
        (("--data", "limit=5"), "data.limit is not given in the run, requested: 5"),
        (("--space", "lm-tiny"), "space is space.yaml in the run, requested: lm-tiny"),
        (("--task", "translation"), "task is lm in the run, requested: translation"),
        (("--run", "b"), "--run: is allowed for a new run only; --resume a resumes an existing one"),
    ])
    def test_what_decides_the_weights_cannot_change(self, capsys, argv, says, finished):
        finished()
        before, config = state("a"), Path("runs/a/config.yaml").read_bytes()
        err = refused(capsys, "train", "--resume", "a", *argv)
        assert says in err and len(err.splitlines()) == 1
        assert (state("a"), Path("runs/a/config.yaml").read_bytes()) == (before, config)

    def test_every_difference_is_told_at_once(self, capsys, finished):
        finished()
        err = refused(capsys, "train", "--resume", "a", "--set", "steps=9", "--set", "seed=1", "--set", "keep=5")
        assert [line.split(" is ")[0] for line in err.splitlines()] == ["nas: runs/a: seed", "nas: runs/a: steps"]

    def test_what_does_not_touch_the_weights_can(self, capsys, monkeypatch):
        assert interrupted(capsys, monkeypatch, options("a"), at=3)[0] == 130
        code, _, err = nas(capsys, "train", "--resume", "a", "--set", "device=auto", "--set", "keep=1", "--set",
                           "log_every=2", "--set", "steps=6", "--task", "lm")
        assert (code, err) == (0, "")
        config = RunDir.open("a").config()
        assert (config.training.device, config.training.keep, config.training.log_every) == ("auto", 1, 2)
        assert [path.name for path in Path("runs/a/checkpoints").iterdir()] == ["step-00000006"]

    def test_a_device_that_is_not_there_leaves_the_run_alone(self, capsys, finished):
        finished()
        config = Path("runs/a/config.yaml").read_bytes()
        err = refused(capsys, "train", "--resume", "a", "--set", "device=cuda:77")
        assert "device: 'cuda:77' cannot be used" in err
        assert Path("runs/a/config.yaml").read_bytes() == config

    def test_there_is_no_such_run(self, capsys):
        assert "runs/a: is not a run; start one with nas train" in refused(capsys, "train", "--resume", "a")
        started(capsys, "there")
        assert "runs here: there" in refused(capsys, "train", "--resume", "a")

    def test_data_or_a_space_that_changed_are_told(self, capsys, finished):
        finished()
        kept = Path("runs/a/space.yaml").read_text("utf-8")
        Path("runs/a/space.yaml").write_text(kept.replace("[8, 12]", "[8, 16]"), "utf-8")
        for command in (("train", "--resume", "a"), ("rank", "a", "-n", "4")):
            assert "runs/a/space.yaml: differs from the file that the run was started with" in refused(capsys, *command)
        Path("runs/a/space.yaml").write_text(kept, "utf-8")
        shutil.rmtree("runs/a/data")
        Path("text.txt").write_text(Path("text.txt").read_text("utf-8") * 2 + "the end .\n", "utf-8")
        assert "different data than the run was started with" in refused(capsys, "train", "--resume", "a")


def test_settings_lists_every_one_with_its_default(capsys):
    code, out, _ = nas(capsys, "settings", "--json")
    rows = json.loads(out)["settings"]
    assert code == 0
    assert [row["name"] for row in rows if row["name"] not in BUDGETS] == list(Recipe.model_fields)
    assert set(BUDGETS) < {row["name"] for row in rows}
    assert {row["name"]: row["default"] for row in rows if row["name"] not in BUDGETS} == Recipe().model_dump()
    code, out, _ = nas(capsys, "settings")
    assert code == 0 and all(name in out for name in Recipe.model_fields)


@pytest.mark.parametrize("command", ["train", "rank", "settings"])
def test_every_command_has_an_example(capsys, command):
    code, out, _ = nas(capsys, command, "--help")
    assert code == 0
    assert f"Example: nas {command}" in " ".join(out.split())


def test_the_embedded_data_need_no_options(capsys, monkeypatch):
    """Only that they are asked for; making them ready takes long."""
    asked = []
    monkeypatch.setattr(type(tasks.get("lm")), "prepare", lambda self, data, *rest: asked.append(data) or 1 / 0)
    argv = [part for part in options("a") if "train=" not in part and "vocab_size=" not in part and part != "--data"]
    assert nas(capsys, *argv)[0] == 1
    assert asked == [{}]


def test_a_config_round_trips():
    config = RunConfig(space="s", task="lm", data={"train": "ä: b"}, training=Recipe(lr=1e-5, precision="bf16"))
    Path("config.yaml").write_text(config.to_yaml(), "utf-8")
    assert read_config(Path("config.yaml")) == config
    assert list(config.differences(config)) == []
