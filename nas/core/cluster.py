"""The connection to a Ray cluster, and calls that run on it in parallel."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ray
import torch
from ray.exceptions import RayError, RayTaskError
from ray.job_config import JobConfig

from nas.core.ray_address import REMEDY, check_answers, connect, start_local
from nas.core.ray_nodes import Nodes
from search_spaces import InputError, plugins
from search_spaces.errors import Option

POLL_S = 0.5
MOST_FAILURES = 10
"""Maximum number of worker failures of a run."""


@contextmanager
def cluster(address: str, workers: int, environment: dict[str, Any] | None = None,
            option: str = Option("workers")) -> Iterator[None]:
    """A connection to a Ray cluster; `local` starts one here for the workers, and stops it.

    If the program is already connected, that cluster is used and left running.

    Args:
        environment: Ray's runtime environment of the workers.
        option: the option that sets the number of workers.

    Raises:
        InputError: there is no cluster at the address, or it is too small, in which case Ray would wait forever.
    """
    if ray.is_initialized():
        _check_room(workers, option)
        yield
        return
    _connect(address, workers, environment)
    try:
        _check_room(workers, option)
        yield
    finally:
        ray.shutdown()


def _connect(address: str, workers: int, environment: dict[str, Any] | None) -> None:
    logging.getLogger("ray").setLevel(logging.ERROR)
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "job_config": JobConfig()}
    quiet["job_config"]._py_driver_sys_path = _OwnPaths()  # type: ignore[attr-defined]
    try:
        if address == "local":
            start_local(num_cpus=max(workers + 1, os.cpu_count() or 1), include_dashboard=False, **quiet)
        else:
            check_answers(address)
            own = {"env_vars": {plugins.VARIABLE: os.environ[plugins.VARIABLE]}} if plugins.named() else {}
            connect(address, runtime_env=environment or own, **quiet)  # workers find the user's files where they are
    except InputError:
        raise
    except (OSError, ValueError, RuntimeError, RayError) as error:
        if "Authentication" in f"{error!r} {error.__cause__!r}":
            message = (f"the cluster at {address!r} requires a token; set RAY_AUTH_MODE=token, and "
                       "RAY_AUTH_TOKEN_PATH to the token file")
        else:
            message = f"no Ray cluster at {address!r} ({str(error).splitlines()[0]}); {REMEDY}"
        raise InputError(Option("ray"), message) from None


class _OwnPaths(list[str]):
    """Import paths that Ray gives to workers: it adds the working directory, in which others may have put modules.

    Workers import from no folder that this process does not.
    """

    def extend(self, paths: Iterable[str]) -> None:
        """See list.extend."""
        super().extend(path for path in paths if path in {os.path.abspath(own) for own in sys.path if own})


def _check_room(workers: int, option: str) -> None:
    cpus = int(ray.cluster_resources().get("CPU", 0))  # type: ignore[no-untyped-call]
    if cpus < workers:
        raise InputError(option, f"{workers} workers need one CPU each; the cluster has {cpus}")


def in_parallel(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], common: Any, workers: int,
                on_gpu: bool, stop: Callable[[], bool], nodes: Nodes | None = None) -> Iterator[Any]:
    """The results of calls on the cluster, in order of completion; a call whose worker dies is repeated.

    Ends on `stop`.

    Args:
        common: the last argument of every call; it is sent once.
        on_gpu: whether each call takes a GPU, where the cluster has any.
        nodes: notices machines that leave.
    """
    n_gpus = 1 if on_gpu and has_gpus(1) else 0
    remote = ray.remote(num_cpus=1, num_gpus=n_gpus)(_alone).options(max_retries=MOST_FAILURES)
    waiting, running, sent = list(calls), list[Any](), ray.put(common)
    while (waiting or running) and not stop():
        while waiting and len(running) < workers:
            running.append(remote.remote(function, waiting.pop(0), sent))
        done, running = ray.wait(running, timeout=POLL_S)
        if nodes is not None:
            nodes.look(now=bool(done))
        for reference in done:
            try:
                yield ray.get(reference)
            except RayTaskError as error:  # its text is the traceback of the other process
                raise error.cause if isinstance(error.cause, InputError) else error from None
            except RayError as error:
                message = f"a worker failed ({str(error).splitlines()[0]}); finished work is kept; rerun to resume"
                raise InputError(Option("ray"), message) from None


def _alone(function: Callable[..., Any], arguments: tuple[Any, ...], common: Any) -> Any:
    """One call in a separate process, with one thread."""
    torch.set_num_threads(1)
    return function(*arguments, common)


def has_gpus(workers: int) -> bool:
    """Whether the connected cluster has a GPU for each worker."""
    return bool(ray.cluster_resources().get("GPU", 0) >= workers)  # type: ignore[no-untyped-call]
