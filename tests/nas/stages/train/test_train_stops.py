"""Trainings that are stopped, run into trouble, or meet another process."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from nas import tasks
from nas.core.commands import shell_command
from nas.core.run_dir import RunDir
from nas.stages.train import training
from supernet.train.checkpoint import load_tensors, newest_step
from supernet.train.step import Trainer
from tests.nas.runs import LIVELY, interrupted, metrics, nas, options, refused, started, state

pytestmark = pytest.mark.usefixtures("here")




class TestStopping:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_it_writes_a_checkpoint_and_says_how_to_go_on(self, capsys, monkeypatch, number):
        before = signal.getsignal(number)
        code, out, err = interrupted(capsys, monkeypatch, options("a", checkpoint_every=100), at=3, number=number)
        assert (code, err) == (130, "")
        assert "stopping; press Ctrl-C again to abort" in out
        assert "stopped after step 3; resume with: nas train --resume a\n" in out
        assert newest_step(Path("runs/a/checkpoints")) == 3
        assert not Path("runs/a/supernet.safetensors").exists()
        assert signal.getsignal(number) == before

    def test_a_stopped_run_ends_as_one_that_was_not(self, capsys, monkeypatch):
        started(capsys, "straight", **LIVELY)
        assert interrupted(capsys, monkeypatch, options("stopped", **LIVELY), at=3)[0] == 130
        assert interrupted(capsys, monkeypatch, ["train", "--resume", "stopped"], at=7)[0] == 130
        code, out, _ = nas(capsys, "train", "--resume", "stopped")
        assert code == 0 and "resuming after step 7 of 9" in out
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
        monkeypatch.setattr(training, "evaluator", lambda *_, **__: lambda trainer: {"loss": next(losses)})
        out = started(capsys, steps=50, evaluate_every=2, patience=2)
        assert "stopped early: no better loss since step 2\n" in out
        assert "the weights are those of step 2, which had the best evaluation" in out
        assert "1 steps had non-finite gradients and were skipped" in out
        assert "trained for 6 steps" in out
        assert (2, "train/skipped", 1.0) in metrics("a")
        assert caplog.text == ""


    def test_the_weights_are_those_of_the_best_evaluation_also_when_resumed(self, capsys, monkeypatch):
        wanted = {2: 3.0, 4: 1.0, 6: 2.0, 8: 2.5, 10: 2.0}
        monkeypatch.setattr(training, "evaluator",
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
        assert not Path("runs/a").exists()  # nothing was learned: the name is free for smaller batches

    def test_memory_that_runs_out_in_an_evaluation_is_told(self, capsys, monkeypatch, finished):
        def evaluate(*_, **__):
            raise MemoryError

        finished()
        monkeypatch.setattr(type(tasks.get("lm")), "evaluate", evaluate)
        assert "evaluation after step 2: out of memory; lower batch_size (it is 2" in refused(capsys, *options("b"))
        err = refused(capsys, "evaluate", "a")
        assert "out of memory; close other programs, or train with a batch_size below 2" in err
        assert "evaluation after step 1: out of memory" in refused(capsys, "rank", "a", "-n", "4", "--steps", "1")

    def test_gradients_that_are_never_finite_are_told(self, capsys):
        err = refused(capsys, *options("a", lr=1e30, clip=0, steps=50, bad_steps=3, weight_decay=0, checkpoint_every=1))
        assert "not finite in 3 consecutive steps" in err and "train again with an lr below 1e+30" in err
        assert newest_step(Path("runs/a/checkpoints")) > 0

    def test_a_full_disk_at_the_end_is_told_and_the_run_goes_on(self, capsys, monkeypatch):
        def full(tensors, path):
            path.write_bytes(b"half")
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

        with monkeypatch.context() as patch:
            patch.setattr(training, "save_tensors", full)
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
        assert str(path) in err and "delete its folder to resume from the previous checkpoint" in err
        shutil.rmtree(path.parent)
        Path("runs/a/supernet.safetensors").unlink()
        code, out, _ = nas(capsys, "train", "--resume", "a")
        assert code == 0 and "resuming after step 4 of 6" in out

    @pytest.mark.parametrize(("content", "says"), [
        (b"training: [1, 2", "config.yaml: not valid YAML"),
        (b"\xff\xfe", "config.yaml: is not UTF-8 text"),
        (b"[1, 2]", "config.yaml: [1, 2] is not allowed: input should be a table of keys"),
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
        assert "manifest.json: not valid JSON" in refused(capsys, "train", "--resume", "a")


def test_the_command_that_goes_on_is_complete(finished):
    finished()
    run = RunDir.open("a")
    assert shell_command(run.resume_command()) == "nas train --resume a"
    run.write_manifest({}, {"workers": 2, "ray": "auto"})
    assert shell_command(run.resume_command()) == "nas train --resume a --workers 2 --ray auto"
    assert run.resume_command().as_call() == "train(resume='a', workers=2, ray='auto')"


def _hold(folder, ready, done):
    os.chdir(folder)
    with RunDir.open("a").locked():
        ready.set()
        done.wait(60)


class TestLock:
    def test_a_run_is_made_by_one_process_only(self, capsys):
        Path("runs/a").mkdir(parents=True)
        with RunDir("a").locked():
            assert "runs/a: another process is using this run" in refused(capsys, *options("a"))
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
            assert "runs/a: another process is using this run" in refused(capsys, *argv)
        assert Path("runs/a/config.yaml").read_bytes() == config
        other.kill()
        other.join(60)
        assert nas(capsys, "train", "--resume", "a")[0] == 0  # the lock went with the process
