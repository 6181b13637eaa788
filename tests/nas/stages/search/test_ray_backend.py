"""Searches on a Ray cluster of two nodes on this machine: every trial told once, whoever dies meanwhile."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
import ray
from optuna.trial import TrialState
from ray.cluster_utils import Cluster as RayCluster

import nas
from nas.core.ray_nodes import NodeWarning
from nas.core.run_dir import RunDir
from nas.core.search_config import SearchConfig
from nas.core.stopping import Stopped
from nas.stages.search.evaluations import Evaluations
from nas.stages.search.evaluator import Evaluation
from nas.stages.search.ray_backend import run_on_ray
from nas.stages.search.request import SearchCluster
from nas.stages.search.search import Search
from nas.stages.search.setup import SearchSetup
from nas.stages.search.suggestions import Suggestions
from search_spaces import InputError

WHERE = SearchCluster("auto")
FOREVER_S = 300.0


def patiently(start):
    """Ray gives a node 30 seconds to start, which a busy machine may not do."""
    for _ in range(4):
        try:
            return start()
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
            last = error
    raise last


@pytest.fixture(scope="module")
def nodes():
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - Ray's spelling; else a busy machine starves the workers
    made = patiently(lambda: RayCluster(initialize_head=True, head_node_args={"num_cpus": 1}))
    patiently(lambda: made.add_node(num_cpus=1))
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@dataclass(frozen=True)
class Stub:
    """Evaluates by the architecture's key, and leaves the number of its process behind.

    Args:
        trouble: what goes wrong with architectures, by their keys.
    """

    folder: str
    sleep_s: float = 0.0
    trouble: tuple[tuple[str, str], ...] = ()

    def __call__(self):
        Path(self.folder, f"{os.getpid()}.pid").write_text(nas.__file__)
        return self.evaluate

    def evaluate(self, arch, race):
        time.sleep(self.sleep_s)
        kind = dict(self.trouble).get(arch.key)
        if kind == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "raises":
            raise RuntimeError("a bad day")
        if kind == "memory":
            raise MemoryError
        return Evaluation({"loss": math.nan if kind == "nan" else int(arch.key[:6], 16) / 1e6})

    def pids(self):
        return [int(path.stem) for path in Path(self.folder).glob("*.pid")]


@dataclass(frozen=True)
class Broken:
    def __call__(self):
        raise RuntimeError("no such accelerator")


def opened(trials, **settings):
    config = {"objectives": ("loss", "params"), "sampler": "random", "trials": trials, **settings}
    setup = SearchSetup(RunDir.open("a"), SearchConfig(**config))
    search = Search(setup, Suggestions(setup), Evaluations.of(setup.run.path, setup.conditions()))
    search.record.start(trials)
    return search


def searched(search, make=None, stop=lambda: False, where=WHERE):
    """The trials it told, and whether it finished. None is left running, and the disk holds what was told."""
    told, finished = [], True
    search.on_trial = told.append
    try:
        run_on_ray(search, stop, where, make)
    except Stopped:
        finished = False
    assert max(Counter(trial.number for trial in told).values(), default=1) == 1
    if finished:
        assert not search.record.study.memory.get_trials(states=(TrialState.RUNNING,))
    assert len(opened(search.n_trials).record.finished) == len(search.record.finished)
    return told, finished


def once(condition):
    """Wait until a condition holds."""
    end = time.monotonic() + FOREVER_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_workers_find_what_this_process_finds(here, finished, nodes):
    finished()
    search = opened(8, sampler="predictor", limit=6, race=False)
    told, done = searched(search)
    assert done and len(told) == search.done == 8
    evaluate = search.setup.evaluator()
    for trial in told[:3]:
        found = evaluate(search.setup.space.decode(trial.params))
        assert trial.user_attrs["metrics"] == pytest.approx(found.metrics, rel=1e-5)
        assert search.record.evaluations.get(trial.user_attrs["key"]).losses == pytest.approx(found.losses, rel=1e-5)
    run_on_ray(search, lambda: False, WHERE)
    assert len(told) == 8


def test_what_goes_wrong_with_an_architecture_is_told_and_the_search_goes_on(here, finished, nodes, capfd):
    finished()
    ahead, search = opened(12), opened(12)
    keys = list(dict.fromkeys(ahead.propose().arch.key for _ in range(12)))
    kinds = ("dies", "raises", "memory", "nan")
    told, done = searched(search, Stub(str(here), trouble=tuple(zip(keys, kinds))))
    reasons = {trial.user_attrs["key"]: trial.user_attrs["reason"] for trial in told if trial.state == TrialState.FAIL}
    assert done and search.done == 12
    died, *others = [reasons[key] for key in keys[:4]]
    assert re.fullmatch(r"its worker died \d times: its process was killed, perhaps because memory ran out", died)
    assert others == ["RuntimeError: a bad day", "MemoryError", "a value is not finite"]
    assert len(reasons) == 4
    assert "".join(capfd.readouterr()) == ""


def test_a_killed_worker_is_replaced_and_nothing_is_lost(here, finished, nodes):
    finished()
    search, stub = opened(40), Stub(str(here), 0.2)

    def kill() -> None:
        once(lambda: search.done >= 4)
        os.kill(stub.pids()[0], signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    told, done = searched(search, stub)
    assert done and search.done == 40
    assert len(stub.pids()) >= 3
    assert {trial.state for trial in told} == {TrialState.COMPLETE}


def test_a_node_that_leaves_takes_nothing_with_it(here, finished, nodes):
    finished()
    leaving = patiently(lambda: nodes.add_node(num_cpus=1))
    once(lambda: ray.cluster_resources().get("CPU") == 3)
    search, stub = opened(40), Stub(str(here), 0.3)

    def leave() -> None:
        once(lambda: search.done >= 4 and len(stub.pids()) == 3)
        nodes.remove_node(leaving, allow_graceful=False)

    threading.Thread(target=leave, daemon=True).start()
    with pytest.warns(NodeWarning, match="left the Ray cluster during the search: .*remaining machines: 2"):
        told, done = searched(search, stub)
    event = json.loads(Path("runs/a/events.jsonl").read_text())
    assert event["kind"] == "node_left" and leaving.node_id[:8] in event["says"]
    assert done and search.done == 40
    assert {trial.state for trial in told} == {TrialState.COMPLETE}
    assert leaving not in nodes.list_all_nodes()


def test_a_killed_search_goes_on_in_another_process(here, finished, nodes):
    finished()
    code = f"""
from ray import cloudpickle
from tests.nas.stages.search import test_ray_backend as tests
cloudpickle.register_pickle_by_value(tests)  # the workers get our packages, but not the tests
where, stub = tests.SearchCluster({nodes.address!r}), tests.Stub({str(here)!r}, 0.5)
tests.run_on_ray(tests.opened(40), lambda: False, where, stub)
"""
    paths = os.pathsep.join([str(Path(__file__).parents[4]), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths})
    journal = Path("runs/a/study.journal")
    once(lambda: process.poll() is not None or (journal.is_file() and len(journal.read_text().splitlines()) > 12))
    assert process.poll() is None
    process.kill()
    process.wait()
    assert all("py_modules" in path.read_text() for path in here.glob("*.pid"))  # not what is installed here
    search = opened(40)
    before = {trial.number: trial.params for trial in search.record.finished}
    assert before and not search.record.study.memory.get_trials(states=(TrialState.RUNNING,))
    told, done = searched(search, Stub(str(here)))
    assert done and search.done == 40 and len(told) == 40 - len(before)
    assert {number: search.record.finished[number].params for number in before} == before


def test_a_stop_does_not_wait_for_long_evaluations_and_can_be_resumed(here, finished, nodes):
    finished()
    search, stub = opened(6), Stub(str(here), FOREVER_S)
    asked = []

    def stop() -> bool:
        if stub.pids() and not asked:
            asked.append(time.monotonic())
        return bool(asked)

    told, done = searched(search, stub, stop)
    assert not done and not told
    assert time.monotonic() - asked[0] < 60
    told, done = searched(opened(6), Stub(str(here)))
    assert done and len(told) == 6


def test_workers_that_cannot_start_end_the_search(here, finished, nodes):
    finished()
    with pytest.raises(InputError, match="no such accelerator"):
        run_on_ray(opened(6), lambda: False, WHERE, Broken())
    assert not opened(6).record.finished


@pytest.mark.parametrize(("asked", "says"), [
    ({"cpus_per_trial": 2.0}, "has the 2 CPUs and 0 GPUs that a worker needs; its machines have 1 CPUs and 0 GPUs, "
                              "1 CPUs"),
    ({"gpus_per_trial": 4.0}, "has the 1 CPUs and 4 GPUs that a worker needs"),
    ({"cpus_per_trial": 0.0}, "cpus_per_trial: 0 is not allowed"),
    ({"gpus_per_trial": 1.5}, "gpus_per_trial: 1.5 is not allowed"),
    ({"ray": "ray://head:10001"}, "Ray Client"),
])
def test_what_no_machine_has_is_refused(here, finished, nodes, asked, says):
    finished()
    with pytest.raises(InputError, match=says):
        run_on_ray(opened(6), lambda: False, SearchCluster(**asked))
