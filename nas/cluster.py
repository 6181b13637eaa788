"""Training on a Ray cluster: data-parallel workers that go on from the run's last checkpoint when one dies.

The run's folder has to be reachable under the same path from every machine of the cluster.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
import ray.train
import torch
import torch.distributed as dist
from ray.exceptions import RayError, RayTaskError
from ray.train.torch import TorchConfig, TorchTrainer, get_device

from nas import train as stage
from nas.progress import Bar, Files, read_rows
from nas.run_dir import RunDir, write_json
from search_spaces import InputError, plugins
from supernet.checkpoint import newest_step
from supernet.fit import Observer, Silent
from supernet.parallel import Workers

POLL_S = 0.5
MOST_FAILURES = 10
"""How often workers may die before a run gives up."""


@contextmanager
def cluster(address: str, workers: int, environment: dict[str, Any] | None = None,
            option: str = "--workers") -> Iterator[None]:
    """A connection to a Ray cluster; `local` starts one here with room for the workers, and ends it.

    Where the program is connected already, that cluster is used and left as it is.

    Args:
        environment: Ray's runtime environment of the workers.
        option: what asked for so many workers.

    Raises:
        InputError: there is no cluster at the address, or it is too small: Ray would wait for ever.
    """
    if ray.is_initialized():
        _check_room(workers, option)
        yield
        return
    try:
        if address == "local":
            ray.init(address="local", num_cpus=max(workers + 1, os.cpu_count() or 1), include_dashboard=False,
                     log_to_driver=False, logging_level=logging.ERROR)
        else:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR,
                     runtime_env=environment or _plugins())
    except (ConnectionError, ValueError, RuntimeError, RayError) as error:
        if "Authentication" in f"{error!r} {error.__cause__!r}":
            raise InputError("--ray", f"the cluster at {address!r} asks for a token; set RAY_AUTH_MODE=token, and "
                                      "RAY_AUTH_TOKEN_PATH to the file that holds it") from None
        raise InputError("--ray", f"no cluster at {address!r} ({str(error).splitlines()[0]}); start one with ray start "
                                  "--head, or use --ray local") from None
    try:
        _check_room(workers, option)
        yield
    finally:
        ray.shutdown()


def _plugins() -> dict[str, Any]:
    """Workers read the user's own files from where they are here, as they do the run's folder."""
    return {"env_vars": {plugins.VARIABLE: os.environ[plugins.VARIABLE]}} if plugins.named() else {}


def _check_room(workers: int, option: str) -> None:
    cpus = int(ray.cluster_resources().get("CPU", 0))  # type: ignore[no-untyped-call]
    if cpus < workers:
        raise InputError(option, f"{workers} workers need as many CPUs; the cluster has {cpus}")


def train_on_ray(run: RunDir, workers: int, address: str, bar: Bar, stop: Callable[[], bool]) -> bool:
    """Train a run's supernet in several processes; false where `stop` ended it early. Raises InputError."""
    recipe = run.config().training
    _stop_file(run).unlink(missing_ok=True)
    _failure_file(run).unlink(missing_ok=True)
    with cluster(address, workers):
        on_cuda = recipe.device != "cpu" and _cluster_has_gpus(workers)
        if recipe.device == "cuda" and not on_cuda:
            raise InputError("device", f"cuda needs a GPU for each of {workers} workers; the cluster has fewer")
        trainer = TorchTrainer(
            _worker, train_loop_config={"path": str(run.path.absolute()), "cuda": on_cuda},
            torch_config=TorchConfig(backend="nccl" if on_cuda else "gloo"),
            scaling_config=ray.train.ScalingConfig(num_workers=workers, use_gpu=on_cuda),
            run_config=ray.train.RunConfig(name=run.path.name, storage_path=str(run.path.absolute() / "ray"),
                                           failure_config=ray.train.FailureConfig(max_failures=MOST_FAILURES)))
        error = _watch(trainer, run, bar, stop)
    if _failure_file(run).is_file():
        raise InputError("", json.loads(_failure_file(run).read_text("utf-8"))["says"])
    if error is not None:
        says = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise InputError(str(run.path), f"the workers failed ({says}); the last checkpoint is intact, go on with "
                                        f"{run.resume_command()}")
    return not _stop_file(run).exists() or run.weights_path.is_file()


def in_parallel(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], common: Any, workers: int,
                on_gpu: bool, stop: Callable[[], bool]) -> Iterator[Any]:
    """The results of calls on the cluster, as they come; a call whose worker dies is made again. Ends on `stop`.

    Args:
        common: the last argument of every call; it is sent once.
        on_gpu: whether each call takes a GPU, where the cluster has any.
    """
    n_gpus = 1 if on_gpu and _cluster_has_gpus(1) else 0
    remote = ray.remote(num_cpus=1, num_gpus=n_gpus)(_alone).options(max_retries=MOST_FAILURES)
    waiting, running, sent = list(calls), list[Any](), ray.put(common)
    while (waiting or running) and not stop():
        while waiting and len(running) < workers:
            running.append(remote.remote(function, waiting.pop(0), sent))
        done, running = ray.wait(running, timeout=POLL_S)
        for reference in done:
            try:
                yield ray.get(reference)
            except RayTaskError as error:  # its text is the traceback of the other process
                raise error.cause if isinstance(error.cause, InputError) else error from None
            except RayError as error:
                raise InputError("--ray", f"a worker failed ({str(error).splitlines()[0]}); what is finished is kept, "
                                          "call again to go on") from None


def _alone(function: Callable[..., Any], arguments: tuple[Any, ...], common: Any) -> Any:
    """One call in a process of its own. The others have the other cores."""
    torch.set_num_threads(1)
    return function(*arguments, common)


def _cluster_has_gpus(workers: int) -> bool:
    return bool(ray.cluster_resources().get("GPU", 0) >= workers)  # type: ignore[no-untyped-call]


def _watch(trainer: TorchTrainer, run: RunDir, bar: Bar, stop: Callable[[], bool]) -> Exception | None:
    """Wait for the training in the main thread, which alone gets Ctrl-C; gives what went wrong."""
    failed: list[Exception] = []

    def fit() -> None:
        try:
            trainer.fit()
        except Exception as error:  # any error of the workers is reported by the caller in one sentence
            failed.append(error)

    thread = threading.Thread(target=fit, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(POLL_S)
        if stop():
            _stop_file(run).touch()
        bar.show_rows(read_rows(run.path / "metrics.csv"))
    return failed[0] if failed else None


def _worker(config: dict[str, Any]) -> None:
    """What each worker runs, from the newest checkpoint, as often as workers die."""
    run = RunDir(config["path"])
    if _failure_file(run).is_file():  # a mistake of the user's: trying again does not help
        return
    workers = Workers(dist.get_rank(), dist.get_world_size())
    dist.barrier()  # nobody looks for the newest checkpoint while a slower one still has the former's
    observer: Observer = Silent()
    if workers.rank == 0:
        start = newest_step(run.path / "checkpoints")
        observer = Files(run.path, start, run.config().training.log_every)
    try:
        device = str(get_device()) if config["cuda"] else "cpu"
        stage.train(run, observer, _stop_file(run).exists, workers, device=device)
    except InputError as error:
        write_json(_failure_file(run), {"schema_version": 1, "says": str(error)})
        raise


def _stop_file(run: RunDir) -> Path:
    return run.path / ".stop"


def _failure_file(run: RunDir) -> Path:
    return run.path / ".failure.json"
