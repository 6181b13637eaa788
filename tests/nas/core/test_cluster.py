"""Workers on a real Ray cluster of this machine: the same weights as one process, and no harm when one dies."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from nas.core import evaluation as stage
from nas.core.cluster import cluster, in_parallel
from nas.core.config import RunConfig
from nas.core.metrics import read_rows
from nas.core.run_dir import RunDir
from nas.core.stopping import Stopped
from nas.stages.train.on_ray import train_on_ray
from nas.stages.train.training import train_supernet
from nas.terminal.progress import Bar
from search_spaces import InputError
from supernet.train.fit import Silent
from supernet.train.recipe import Recipe

TEXT = "".join(f"{i} plus {i % 7} is {i + i % 7} and not {i * 3}.\n" for i in range(400))
RECIPE = Recipe(steps=6, batch_size=4, precision="fp64", dropout=0.0, evaluate_every=3, evaluate_limit=2,
                checkpoint_every=3, log_every=1)


@pytest.fixture(scope="module", autouse=True)
def connected():
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - Ray's spelling; else a busy machine starves the workers
    with cluster("local", workers=2):
        yield


def started(folder: Path, name: str, **changes) -> RunDir:
    text = folder / "text.txt"
    text.write_text(TEXT)
    config = RunConfig(space="lm-tiny", task="lm", data={"train": str(text), "vocab_size": "60"},
                       training=RECIPE.model_copy(update=changes))
    run = RunDir.create(str(folder / name), config)
    stage.prepare(run)
    return run


def on_ray(run: RunDir, stop=lambda: False) -> None:
    train_on_ray(run, 2, "local", Bar(Console(quiet=True), run.config().training.steps, 0), stop)


def own_processes(title: str) -> list[int]:
    """The processes this one started, however indirectly, with a title that contains the text."""
    parents, titles = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            titles[int(folder.name)] = (folder / "cmdline").read_text()
        except OSError:  # it has ended meanwhile
            continue

    def is_own(process: int) -> bool:
        return process == os.getpid() or (process in parents and is_own(parents[process]))

    return [process for process in titles if title in titles[process] and is_own(process)]


def largest_difference(run: RunDir, other: RunDir) -> float:
    one, two = load_file(run.weights_path), load_file(other.weights_path)
    assert one.keys() == two.keys()
    assert all(tensor.dtype == torch.float64 for tensor in one.values())
    return max(float((one[name] - two[name]).abs().max()) for name in one)


def test_two_workers_stopped_and_resumed_end_with_the_weights_of_one(tmp_path):
    alone, together = started(tmp_path, "alone", accumulate=2), started(tmp_path, "together", accumulate=2)
    train_supernet(alone, Silent())
    with pytest.raises(Stopped, match=r"stopped after step \d; resume with: train\(resume="):
        on_ray(together, stop=lambda: (together.path / "metrics.csv").exists())
    assert not together.weights_path.exists()
    on_ray(together)
    assert largest_difference(alone, together) < 1e-9
    assert {row.step for row in read_rows(together.path / "metrics.csv")} >= set(range(1, 7))


def test_a_worker_that_is_killed_is_replaced_and_nothing_is_lost(tmp_path):
    alone, shot = started(tmp_path, "alone", steps=30), started(tmp_path, "shot", steps=30)
    train_supernet(alone, Silent())
    killed = []

    def kill_one() -> None:
        while not list((shot.path / "checkpoints").glob("step-*")):
            time.sleep(0.05)
        killed.append(own_processes("TrainWorker")[0])
        os.kill(killed[0], signal.SIGKILL)

    threading.Thread(target=kill_one, daemon=True).start()
    on_ray(shot)
    assert killed
    assert largest_difference(alone, shot) < 1e-9


def test_a_mistake_of_the_users_is_told_once_and_not_tried_again(tmp_path):
    run = started(tmp_path, "run", lr=1e30, clip=0.0, bad_steps=2, steps=50)
    with pytest.raises(InputError, match="not finite in 2 consecutive steps"):
        on_ray(run)


def test_more_workers_than_cpus_are_refused():
    with pytest.raises(InputError, match="500 workers need one CPU each"), cluster("local", 500):
        pass


def test_calls_run_in_parallel_and_end_on_stop():
    calls = [(2, i) for i in range(5)]
    assert sorted(in_parallel(pow, calls, 10, 2, True, lambda: False)) == [1, 2, 4, 6, 8]
    assert list(in_parallel(pow, [(2, 2)], 10, 2, False, lambda: True)) == []
