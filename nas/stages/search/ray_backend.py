"""The backend on a Ray cluster: Ray Tune manages the workers, the study stays in this process.

Ray Tune's own state is written to a temporary folder and never read. A Tune trial is a portion of architectures.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TextIO

import ray
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.search import Searcher
from ray.tune.stopper import Stopper

from nas.core.cluster import POLL_S, cluster
from nas.core.ray_nodes import Nodes
from nas.core.stopping import Stop, Stopped
from nas.stages.search.evaluator import failure
from nas.stages.search.handout import Handout
from nas.stages.search.ray_cluster import Room, packages
from nas.stages.search.ray_worker import Make, Portion, SearchWorker, parts
from nas.stages.search.request import SearchCluster
from nas.stages.search.search import Search
from search_spaces import InputError
from search_spaces.errors import Option

GRACE_S = 3.0
"""Seconds for workers to finish their portions when the search is stopped."""
MOST_LOST = 10
"""Maximum consecutive lost portions, in addition to two per worker; more means that the workers are broken."""
NO_START = "it could not start"
SETTINGS = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "1e9",
    "RAY_AIR_NEW_OUTPUT": "0",  # the new output engine prints even in silent mode
    "TUNE_MAX_PENDING_TRIALS_PG": "auto",
}
"""Ray Tune logs, prints and stores nothing."""


def run_on_ray(search: Search, stop: Stop, where: SearchCluster, make: Make | None = None) -> None:
    """Search until all trials are done; `search.on_trial` is called in another thread.

    Args:
        make: creates the evaluator of a worker; by default with the run's supernet.

    Raises:
        InputError: there is no such cluster, it is too small, or its workers cannot evaluate.
        Stopped: `stop` ended it before.
    """
    room = Room(where)
    feed = _Feed(search, room)
    if feed.handout.finished:
        return
    with _quiet(), cluster(where.ray, 0, None if where.ray == "local" else packages()):
        logging.getLogger("ray").setLevel(logging.CRITICAL)
        room.check()
        os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(room.workers())  # otherwise workers start one after the other
        worker = tune.with_parameters(SearchWorker, make=make or parts(search.setup, where.gpus_per_trial > 0),
                                      threads=max(1, int(where.cpus_per_trial)))
        nodes = Nodes(search.setup.run.path, "the search")
        while not feed.handout.finished and not feed.ending:
            _run_once(worker, feed, stop, nodes)
    if feed.error is not None:
        raise feed.error
    if not feed.handout.finished:
        raise Stopped


def _run_once(worker: Any, feed: _Feed, stop: Stop, nodes: Nodes) -> None:
    """Run Ray Tune in a thread, because only the main thread gets Ctrl-C."""
    before, failed = feed.handout.came_back, list[Exception]()
    thread = threading.Thread(target=_tune, args=(worker, feed, failed), daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_S)
            nodes.look()
            if stop():
                feed.end(GRACE_S)
    except BaseException:  # aborted: Ray must outlive the thread
        feed.end(0)
        thread.join(GRACE_S)
        raise
    nodes.look(now=True)
    feed.handout.recall()
    if failed and feed.handout.came_back == before and not feed.ending:
        feed.fail(InputError(Option("ray"), f"Ray Tune failed ({failure(failed[0])}); finished trials are kept; "
                                            "rerun to resume"))


def _tune(worker: Any, feed: _Feed, failed: list[Exception]) -> None:
    with tempfile.TemporaryDirectory(prefix="nas-search-", ignore_cleanup_errors=True) as folder:
        try:
            tune.run(worker, search_alg=feed, callbacks=[_Watch(feed)], stop=_End(feed), num_samples=-1, name="search",
                     storage_path=folder, resources_per_trial=feed.room.resources, reuse_actors=True, verbose=0,
                     raise_on_failed_trial=False, trial_dirname_creator=lambda trial: trial.trial_id)
        except Exception as error:  # a fault of Tune: the study is intact, another run resumes it
            failed.append(error)


class _Feed(Searcher):
    """Passes portions of proposals to Ray Tune, and their results to the study."""

    def __init__(self, search: Search, room: Room) -> None:
        super().__init__()
        self.room = room
        self.handout = Handout(search, lambda: self.ending)
        self.error: BaseException | None = None
        self._end_at = float("inf")

    @property
    def ending(self) -> bool:
        """Whether no more portions are handed out."""
        return self._end_at < float("inf")

    @property
    def over(self) -> bool:
        """Whether waiting has ended."""
        return time.monotonic() >= self._end_at

    def end(self, grace_s: float) -> None:
        """Hand out no more portions, and wait for a limited time."""
        self._end_at = min(self._end_at, time.monotonic() + grace_s)

    def fail(self, error: BaseException) -> None:
        """End at once, with an error."""
        self.error = self.error or error
        self.end(0)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """An error of the study ends the search; Tune would treat it as a trial error and continue."""
        try:
            yield
        except Exception as error:
            self.fail(error)

    def suggest(self, trial_id: str) -> Any:
        """The next portion; None as long as all workers are busy."""
        portion = []
        with self.guarded():
            workers = self.room.workers()
            if not self.ending and self.handout.n_out < workers:
                portion = self.handout.give(trial_id, workers)
        if portion:
            return {"work": Portion((proposal.arch, proposal.rival) for proposal in portion)}
        return self.FINISHED if self.ending or self.handout.finished else None

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """A portion is done; lost ones are handled by `_Watch`."""
        if result and "evaluations" in result:
            with self.guarded():
                self.handout.take(trial_id, result["evaluations"], result["seconds"])

    def lost(self, trial_id: str, why: str) -> None:
        """A portion is lost."""
        if self.ending:
            return
        with self.guarded():
            self.handout.lose(trial_id, why)
            most = 2 * self.room.workers() + (0 if why.startswith(NO_START) else MOST_LOST)
            if self.handout.lost_in_a_row > most:
                raise InputError(Option("ray"), f"{self.handout.lost_in_a_row} consecutive workers died ({why}); "
                                                "finished trials are kept; rerun to resume")

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: the study is on disk."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing: the study is on disk."""


class _Watch(tune.Callback):
    """Handles dead workers, and stops those that are no longer needed."""

    def __init__(self, feed: _Feed) -> None:
        self.feed = feed

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Stop workers in the middle of their portions; Tune would wait for them."""
        if self.feed.over:
            for trial in trials:
                if trial.status == Trial.RUNNING and trial.temporary_state.ray_actor is not None:
                    ray.kill(trial.temporary_state.ray_actor)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A portion is lost."""
        text = Path(trial.error_file).read_text("utf-8") if trial.error_file else ""
        self.feed.lost(trial.trial_id, reason(text))


class _End(Stopper):
    """Stops all trials, also pending ones, when waiting has ended."""

    def __init__(self, feed: _Feed) -> None:
        self.feed = feed

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Whether it is over."""
        return self.feed.over

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles it with the experiment, which is never read


def reason(text: str) -> str:
    """Ray's reason for a worker's death, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["unknown reason"]
    if "creation task" in text:
        return f"{NO_START}, {lines[-1]}"
    if "low on memory" in text:
        return "its machine ran out of memory"
    if "node has died" in text or "node was" in text:
        return "its machine left the cluster"
    if "process has died" in text or "SYSTEM_ERROR" in text:
        return "its process was killed, perhaps because memory ran out"
    return lines[-1]


class _WithoutRay:
    """A stream that drops output of Ray's threads: one prints every worker death, whatever the log level."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text of another thread."""
        return len(text) if threading.current_thread().name.startswith("ray_") else self._stream.write(text)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress output and logs of Ray that would disturb the bar."""
    before, level = {name: os.environ.get(name) for name in SETTINGS}, logging.getLogger("ray").level
    os.environ.update(SETTINGS)
    try:
        with redirect_stdout(_WithoutRay(sys.stdout)):
            yield
    finally:
        logging.getLogger("ray").setLevel(level)
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
