"""Training on a Ray cluster: data-parallel workers that resume from the run's last checkpoint when one dies.

The run's folder has to be reachable under the same path from every machine of the cluster.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import ray.train
import torch.distributed as dist
from ray.train.torch import TorchConfig, TorchTrainer, get_device

from nas.core.cluster import MOST_FAILURES, POLL_S, cluster, has_gpus
from nas.core.metrics import Files, read_rows
from nas.core.progress import TrainingProgress
from nas.core.ray_address import in_thread
from nas.core.ray_nodes import Nodes
from nas.core.run_dir import RunDir, write_json
from nas.core.stopping import Stop, Stopped
from nas.stages.train.training import stopped, train_supernet
from search_spaces import InputError
from search_spaces.files.reading import read_table
from supernet.train.checkpoint import newest_step
from supernet.train.fit import Observer, Silent
from supernet.train.parallel import Workers


def train_on_ray(run: RunDir, workers: int, address: str, shown: TrainingProgress, stop: Stop) -> None:
    """Train a run's supernet in several processes. Raises InputError, Stopped."""
    recipe = run.config().training
    _stop_file(run).unlink(missing_ok=True)
    _failure_file(run).unlink(missing_ok=True)
    with cluster(address, workers):
        on_cuda = recipe.device != "cpu" and has_gpus(workers)
        if recipe.device == "cuda" and not on_cuda:
            raise InputError("device", f"cuda needs a GPU for each of {workers} workers; the cluster has fewer")
        trainer = TorchTrainer(
            _worker, train_loop_config={"path": str(run.path.absolute()), "cuda": on_cuda},
            torch_config=TorchConfig(backend="nccl" if on_cuda else "gloo"),
            scaling_config=ray.train.ScalingConfig(num_workers=workers, use_gpu=on_cuda),
            run_config=ray.train.RunConfig(name=run.path.name, storage_path=str(run.path.absolute() / "ray"),
                                           failure_config=ray.train.FailureConfig(max_failures=MOST_FAILURES)))
        error = _watch(trainer, run, shown, stop)
    if _failure_file(run).is_file():
        raise InputError("", str(read_table(_failure_file(run)).get("message", "a worker failed")))
    if error is not None:
        message = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise InputError(str(run.path), f"the workers failed ({message}); the last checkpoint is intact, resume with "
                                        f"{run.resume_command()}")
    if _stop_file(run).exists() and not run.weights_path.is_file():
        raise stopped(run, newest_step(run.path / "checkpoints"))


def _watch(trainer: TorchTrainer, run: RunDir, shown: TrainingProgress, stop: Stop) -> BaseException | None:
    """Wait for the training in the main thread, which gets Ctrl-C; returns the error, if any."""
    nodes = Nodes(run.path, "training")

    def look() -> None:
        nodes.look()
        if stop():
            _stop_file(run).touch()
        shown.on_rows(read_rows(run.path / "metrics.csv"))

    error = in_thread(trainer.fit, look, POLL_S)
    nodes.look(now=True)
    return error


def _worker(config: dict[str, Any]) -> None:
    """The worker function; restarted from the newest checkpoint after failures."""
    run = RunDir(config["path"])
    if _failure_file(run).is_file():  # a user error: retrying does not help
        return
    workers = Workers(dist.get_rank(), dist.get_world_size())
    dist.barrier()  # all workers must see the same newest checkpoint
    device = str(get_device()) if config["cuda"] else "cpu"
    try:
        with _observer(run, workers) as observer:
            train_supernet(run, observer, _stop_file(run).exists, workers, device=device)
    except Stopped:
        return  # the process that started the workers knows
    except InputError as error:
        write_json(_failure_file(run), {"schema_version": 1, "message": error.marked})
        raise


def _observer(run: RunDir, workers: Workers) -> AbstractContextManager[Observer]:
    """The curves of the run, which the first worker writes."""
    if workers.rank:
        return nullcontext(Silent())
    return Files(run.path, newest_step(run.path / "checkpoints"), run.config().training.log_every)


def _stop_file(run: RunDir) -> Path:
    return run.path / ".stop"


def _failure_file(run: RunDir) -> Path:
    return run.path / ".failure.json"
