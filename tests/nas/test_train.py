"""`nas train` from the command line: a run's files, resuming, stopping, and what can go wrong meanwhile."""

import csv
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from safetensors import SafetensorError

from nas import progress, tasks
from nas import train as stage
from nas.config import RunConfig, read_config
from nas.run_dir import RunDir
from search_spaces import load_space
from supernet import Supernet
from supernet.checkpoint import load_tensors, newest_step
from supernet.recipe import Recipe
from supernet.training import Trainer
from tests.nas.runs import SETTINGS, nas, options, refused, state

LIVELY = {"dropout": 0.2, "layerdrop": 0.3, "accumulate": 2, "ema": 0.9, "steps": 9}
"""Settings that make every kind of chance and state matter."""
pytestmark = pytest.mark.usefixtures("here")


def started(capsys, run="a", **settings):
    code, out, err = nas(capsys, *options(run, **settings))
    assert (code, err) == (0, "")
    return out


def metrics(run):
    with Path("runs", run, "metrics.csv").open(encoding="utf-8") as file:
        return [(int(row["step"]), row["metric"], float(row["value"])) for row in csv.DictReader(file)]


def interrupted(capsys, monkeypatch, argv, at, number=signal.SIGINT, times=1):
    """Run a command that gets a signal after so many steps."""
    honest = progress.Files.on_step

    def on_step(self, report):
        honest(self, report)
        if report.step + 1 == at:
            for _ in range(times):
                os.kill(os.getpid(), number)

    with monkeypatch.context() as patch:
        patch.setattr(progress.Files, "on_step", on_step)
        return nas(capsys, *argv)


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
        found = stage.inherited(net, prepared.space.largest(), tasks.get("lm"), prepared, recipe, limit=4)
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


class TestResume:
    def test_a_finished_run_stays_as_it_is(self, capsys, finished):
        finished()
        before, rows = state("a"), metrics("a")
        code, out, err = nas(capsys, "train", "--resume", "a")
        assert (code, err) == (0, "")
        assert "going on after step 6 of 6" in out and "trained for 6 steps" in out
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
        (("--set", "steps=9"), "runs/a: steps is 6 in the run, asked for 9; to change it, start a new run"),
        (("--set", "lr=0.5"), "lr is 0.01 in the run, asked for 0.5"),
        (("--data", "train=other.txt"), "data.train is text.txt in the run, asked for other.txt"),
        (("--data", "limit=5"), "data.limit is not given in the run, asked for 5"),
        (("--space", "lm-tiny"), "space is space.yaml in the run, asked for lm-tiny"),
        (("--task", "translation"), "task is lm in the run, asked for translation"),
        (("--run", "b"), "--run: goes with a new run; --resume a already names one"),
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
        assert "runs/a: is no run; start one with nas train" in refused(capsys, "train", "--resume", "a")
        started(capsys, "there")
        assert "runs here: there" in refused(capsys, "train", "--resume", "a")

    def test_data_or_a_space_that_changed_are_told(self, capsys, finished):
        finished()
        kept = Path("runs/a/space.yaml").read_text("utf-8")
        Path("runs/a/space.yaml").write_text(kept.replace("[8, 12]", "[8, 16]"), "utf-8")
        assert "runs/a/space.yaml: is not what the run was started with" in refused(capsys, "train", "--resume", "a")
        assert "runs/a/space.yaml: is not what the run was started with" in refused(capsys, "rank", "a", "-n", "4")
        Path("runs/a/space.yaml").write_text(kept, "utf-8")
        shutil.rmtree("runs/a/data")
        Path("text.txt").write_text(Path("text.txt").read_text("utf-8") * 2 + "the end .\n", "utf-8")
        assert "other data than the run was started with" in refused(capsys, "train", "--resume", "a")


class TestStopping:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_it_writes_a_checkpoint_and_says_how_to_go_on(self, capsys, monkeypatch, number):
        before = signal.getsignal(number)
        code, out, err = interrupted(capsys, monkeypatch, options("a", checkpoint_every=100), at=3, number=number)
        assert (code, err) == (130, "")
        assert "stopping at the next chance; once more breaks off" in out
        assert "stopped after step 3; go on with: nas train --resume a\n" in out
        assert newest_step(Path("runs/a/checkpoints")) == 3
        assert not Path("runs/a/supernet.safetensors").exists()
        assert signal.getsignal(number) == before

    def test_a_stopped_run_ends_as_one_that_was_not(self, capsys, monkeypatch):
        started(capsys, "straight", **LIVELY)
        assert interrupted(capsys, monkeypatch, options("stopped", **LIVELY), at=3)[0] == 130
        assert interrupted(capsys, monkeypatch, ["train", "--resume", "stopped"], at=7)[0] == 130
        code, out, _ = nas(capsys, "train", "--resume", "stopped")
        assert code == 0 and "going on after step 7 of 9" in out
        assert state("stopped") == state("straight")
        rows = [[row for row in metrics(run) if row[1] != "train/tokens_per_s"] for run in ("stopped", "straight")]
        assert rows[0] == rows[1]

    def test_another_process_ends_it_alike(self, capsys, monkeypatch):
        """Sets have another order in each process; nothing may depend on it."""
        started(capsys, "straight", **LIVELY)
        assert interrupted(capsys, monkeypatch, options("moved", **LIVELY), at=3)[0] == 130
        hashes = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
        code = "import sys, torch; torch.set_num_threads(1); from nas.cli import main; sys.exit(main())"
        done = subprocess.run([sys.executable, "-c", code, "train", "--resume", "moved"], capture_output=True,
                              text=True, timeout=120, env={**os.environ, "PYTHONHASHSEED": hashes})
        assert (done.returncode, done.stderr) == (0, "")
        assert state("moved") == state("straight")

    def test_a_second_signal_breaks_off_and_rows_are_not_doubled(self, capsys, monkeypatch):
        started(capsys, "straight", **LIVELY)
        assert interrupted(capsys, monkeypatch, options("broken", **LIVELY), at=5, times=2)[0] == 130
        assert newest_step(Path("runs/broken/checkpoints")) == 4
        assert max(step for step, _, _ in metrics("broken")) == 5
        with Path("runs/broken/metrics.csv").open("a", encoding="utf-8") as file:
            file.write("5,train/lr,0.00")  # cut off by the kill
        assert nas(capsys, "train", "--resume", "broken")[0] == 0
        assert state("broken") == state("straight")
        found = [(step, name) for step, name, _ in metrics("broken")]
        assert len(found) == len(set(found))
        assert sorted(found) == sorted((step, name) for step, name, _ in metrics("straight"))

    def test_early_stopping_and_skipped_steps_are_told(self, capsys, monkeypatch, caplog):
        honest = Trainer.logits

        def logits(self, arch, batch):
            found = honest(self, arch, batch)
            return found * float("nan") if self.progress.step == 1 and self.model.training else found

        monkeypatch.setattr(Trainer, "logits", logits)
        losses = iter([1.0, 2.0, 3.0])
        monkeypatch.setattr(stage, "evaluator", lambda *_, **__: lambda trainer: {"loss": next(losses)})
        out = started(capsys, steps=50, evaluate_every=2, patience=2)
        assert "stopped early: no better loss since step 2\n" in out
        assert "the weights are those of step 2, the best evaluation" in out
        assert "1 steps had no finite gradient and were skipped" in out
        assert "trained for 6 steps" in out
        assert (2, "train/skipped", 1.0) in metrics("a")
        assert caplog.text == ""


    def test_the_weights_are_those_of_the_best_evaluation_also_when_resumed(self, capsys, monkeypatch):
        wanted = {2: 3.0, 4: 1.0, 6: 2.0, 8: 2.5, 10: 2.0}
        monkeypatch.setattr(stage, "evaluator",
                            lambda *_, **__: lambda trainer: {"loss": wanted[trainer.progress.step]})
        settings = {**LIVELY, "steps": 50, "patience": 3, "keep": 1, "checkpoint_every": 3}
        started(capsys, "straight", **settings)
        folder = Path("runs/straight/checkpoints")
        assert sorted(path.name for path in folder.iterdir()) == ["step-00000004", "step-00000010"]
        best = load_tensors(folder / "step-00000004/state.safetensors")
        kept = load_tensors(Path("runs/straight/supernet.safetensors"))
        assert all(torch.equal(tensor, best[f"ema/{name}"]) for name, tensor in kept.items())
        for at in (3, 5, 9):
            assert interrupted(capsys, monkeypatch, options(f"at{at}", **settings), at=at)[0] == 130
            assert nas(capsys, "train", "--resume", f"at{at}")[0] == 0
            assert state(f"at{at}") == state("straight")


class TestTrouble:
    def test_memory_that_runs_out_names_the_setting_that_helps(self, capsys, monkeypatch):
        def step(self):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "step", step)
            err = refused(capsys, *options("a"))
        assert "out of memory; lower batch_size (it is 2; with accumulate=2" in err
        assert nas(capsys, "train", "--resume", "a")[0] == 0

    def test_memory_that_runs_out_in_an_evaluation_is_told(self, capsys, monkeypatch, finished):
        def evaluate(*_, **__):
            raise MemoryError

        finished()
        monkeypatch.setattr(type(tasks.get("lm")), "evaluate", evaluate)
        assert "evaluation after step 2: out of memory; lower batch_size (it is 2" in refused(capsys, *options("b"))
        err = refused(capsys, "evaluate", "a")
        assert "out of memory; end other programs, or train with a batch_size below 2" in err
        assert "evaluation after step 1: out of memory" in refused(capsys, "rank", "a", "-n", "4", "--steps", "1")

    def test_gradients_that_are_never_finite_are_told(self, capsys):
        err = refused(capsys, *options("a", lr=1e30, clip=0, steps=50, bad_steps=3, weight_decay=0, checkpoint_every=1))
        assert "not finite in 3 steps in a row" in err and "train anew with an lr below 1e+30" in err
        assert newest_step(Path("runs/a/checkpoints")) > 0

    def test_a_full_disk_at_the_end_is_told_and_the_run_goes_on(self, capsys, monkeypatch):
        def full(tensors, path):
            path.write_bytes(b"half")
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

        with monkeypatch.context() as patch:
            patch.setattr(stage, "save_tensors", full)
            err = refused(capsys, *options("a"))
        assert "runs/a/supernet.safetensors: cannot be written" in err and "No space left on device" in err
        assert "nas train --resume a" in err
        assert {path.name for path in Path("runs/a").glob("*supernet*")} == set()
        assert nas(capsys, "train", "--resume", "a")[0] == 0

    def test_a_damaged_checkpoint_is_told_in_one_sentence(self, capsys, finished):
        finished()
        path = Path("runs/a/checkpoints/step-00000006/state.safetensors")
        path.write_bytes(path.read_bytes()[:1000])
        err = refused(capsys, "train", "--resume", "a")
        assert str(path) in err and "delete its folder to go on from the checkpoint before" in err
        shutil.rmtree(path.parent)
        Path("runs/a/supernet.safetensors").unlink()
        code, out, _ = nas(capsys, "train", "--resume", "a")
        assert code == 0 and "going on after step 4 of 6" in out

    @pytest.mark.parametrize(("content", "says"), [
        (b"training: [1, 2", "config.yaml: not valid YAML"),
        (b"\xff\xfe", "config.yaml: is not UTF-8 text"),
        (b"[1, 2]", "config.yaml: [1, 2] is not allowed: input should be a valid dictionary"),
        (b"schema_version: 1\nspace: s\n", "config.yaml: task: is missing"),
        (b"schema_version: 1\nspace: s\ntask: lm\nsteps: 9\n",
         "steps: unknown setting; allowed: schema_version, space, task, data, training"),
        (b"schema_version: 1\nspace: s\ntask: lm\ntraining: {stebs: 9}\n",
         "training.stebs: unknown setting; allowed: seed, steps,"),
        (b"schema_version: 2\nspace: s\ntask: lm\n", "schema_version: 2 is not allowed: input should be 1"),
    ])
    def test_a_damaged_config_is_told_in_one_sentence(self, capsys, content, says, finished):
        finished()
        Path("runs/a/config.yaml").write_bytes(content)
        err = refused(capsys, "train", "--resume", "a")
        assert says in err and len(err.splitlines()) == 1

    def test_other_damaged_files_are_told(self, capsys, finished):
        finished()
        Path("runs/a/metrics.csv").write_text("step,metric,value\n\0\0,,\nx,y,z\n6,train/lr,0.1\n", "utf-8")
        assert nas(capsys, "train", "--resume", "a")[0] == 0
        assert metrics("a") == [(6, "train/lr", 0.1)]
        Path("runs/a/manifest.json").write_text('{"data', "utf-8")
        assert "manifest.json: is not JSON; delete it" in refused(capsys, "train", "--resume", "a")


def test_the_command_that_goes_on_is_complete(finished):
    finished()
    run = RunDir.open("a")
    assert run.resume_command() == "nas train --resume a"
    run.write_manifest({}, {"workers": 2, "ray": "auto"})
    assert run.resume_command() == "nas train --resume a --workers 2 --ray auto"


def _hold(folder, ready, done):
    os.chdir(folder)
    with RunDir.open("a").locked():
        ready.set()
        done.wait(60)


class TestLock:
    def test_a_run_is_made_by_one_process_only(self, capsys):
        Path("runs/a").mkdir(parents=True)
        with RunDir("a").locked():
            assert "runs/a: another process is at work on this run" in refused(capsys, *options("a"))
        assert [path.name for path in Path("runs/a").iterdir()] == [".lock"]
        assert nas(capsys, *options("a"))[0] == 0

    def test_two_processes_do_not_work_on_one_run(self, capsys, here, finished):
        finished()
        context = multiprocessing.get_context("fork")
        ready, done = context.Event(), context.Event()
        other = context.Process(target=_hold, args=(here, ready, done))
        other.start()
        assert ready.wait(60)
        config = Path("runs/a/config.yaml").read_bytes()
        for argv in (["train", "--resume", "a", "--set", "keep=7"], ["rank", "a", "-n", "4"]):
            assert "runs/a: another process is at work on this run" in refused(capsys, *argv)
        assert Path("runs/a/config.yaml").read_bytes() == config
        other.kill()
        other.join(60)
        assert nas(capsys, "train", "--resume", "a")[0] == 0  # the lock went with the process


def test_settings_lists_every_one_with_its_default(capsys):
    code, out, _ = nas(capsys, "settings", "--json")
    rows = json.loads(out)["settings"]
    assert code == 0
    assert [row["name"] for row in rows] == list(Recipe.model_fields)
    assert {row["name"]: row["default"] for row in rows} == Recipe().model_dump()
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
    with pytest.raises(ZeroDivisionError):
        nas(capsys, *argv)
    assert asked == [{}]


def test_a_config_round_trips():
    config = RunConfig(space="s", task="lm", data={"train": "ä: b"}, training=Recipe(lr=1e-5, precision="bf16"))
    Path("config.yaml").write_text(config.to_yaml(), "utf-8")
    assert read_config(Path("config.yaml")) == config
    assert list(config.differences(config)) == []
