"""What is said where no Ray cluster answers: one sentence, at once, whatever listens there."""

import json
import os
import signal
import socket
import sys
import threading
from contextlib import contextmanager

import pytest
import ray

from nas.core import cluster as ray_cluster
from nas.core import ray_address
from nas.core.cluster import cluster
from nas.core.ray_nodes import Nodes, NodeWarning
from nas.core.run_dir import RunDir
from search_spaces import InputError
from tests.nas.runs import options, refused


@pytest.fixture
def nobody(monkeypatch):
    """A port on which nothing listens; Ray must not be asked."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray was asked"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def server(answer):
    """The address of a server that answers so, or with silence, and is no Ray cluster."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        def serve():
            connection, _ = listening.accept()
            with connection:
                if answer is not None:
                    connection.sendall(answer)
                connection.recv(1000)
                ended.wait()

        ended = threading.Event()
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            ended.set()


@pytest.mark.parametrize("command", [
    ("search", "a", "--trials", "2", "--ray"), ("rank", "a", "-n", "4", "--steps", "1", "--workers", "2", "--ray"),
    (*options("b"), "--workers", "2", "--ray"),
], ids=lambda command: command[0])
@pytest.mark.parametrize("form", ["{}", "ray://{}"])
def test_every_command_says_that_nothing_listens(here, finished, capsys, nobody, command, form):
    finished()
    said = refused(capsys, *command, form.format(nobody))
    if command[0] == "search" and form != "{}":
        assert "Ray Client" in said
    else:
        assert f"no Ray cluster at '{form.format(nobody)}': nothing listens on port" in said
        assert "ray start --head" in said and "--ray local" in said
    assert len(said.splitlines()) == 1 and not RunDir("b").path.exists()


@pytest.mark.parametrize(("address", "says"), [
    ("auto", "no Ray cluster for 'auto': RAY_ADDRESS is not set, and Ray is not running here; start"),
    ("nonsense", "'nonsense' is not allowed; allowed: auto, local, HOST:PORT or ray://HOST:PORT"),
    ("no-such-host.invalid:6379", "unknown host no-such-host.invalid"), ("127.0.0.1:99999", "is not allowed"),
])
def test_addresses_of_no_cluster(nobody, monkeypatch, address, says):
    monkeypatch.setenv("RAY_TMPDIR", "/nonexistent")
    with pytest.raises(InputError, match=says), cluster(address, 1):
        pass


def test_the_cluster_of_this_machine_is_the_one_that_ray_start_wrote_down(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert ray_address.local_address() is None
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("10.0.0.1:6379\n")
    assert ray_address.local_address() == "10.0.0.1:6379"


def test_a_variable_that_names_no_cluster_is_told(nobody, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", nobody)
    with pytest.raises(InputError, match=rf"no Ray cluster at 'auto' \({nobody}\): nothing listens"):
        ray_address.check_answers("auto")


@pytest.mark.parametrize(("answer", "says"), [(b"HTTP/1.0 400 Bad Request\r\n", "is not a Ray cluster"),
                                              (None, "did not answer within 1 s")])
def test_what_listens_and_is_no_cluster(nobody, monkeypatch, answer, says):
    monkeypatch.setattr(ray_address, "ANSWER_S", 1.0)
    with server(answer) as address, pytest.raises(InputError, match=says):
        ray_address.check_answers(address)


def test_a_cluster_that_does_not_go_on_is_given_up_and_a_signal_is_heard(monkeypatch):
    forever = threading.Event()
    monkeypatch.setattr(ray_address, "CONNECT_S", 0.3)
    monkeypatch.setattr(ray, "init", lambda **_: forever.wait())
    monkeypatch.setattr(ray_cluster, "check_answers", lambda _: None)
    with pytest.raises(InputError, match="127.0.0.1:1' .*does not answer as a Ray "
                                         "cluster"), cluster("127.0.0.1:1", 1):
        pass
    monkeypatch.setattr(ray_address, "CONNECT_S", 60.0)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        ray_address.connect("127.0.0.1:1")
    forever.set()


def test_workers_import_from_no_folder_that_this_process_does_not(tmp_path):
    paths = ray_cluster._OwnPaths()
    paths.extend([str(tmp_path), os.path.abspath(sys.path[-1])])
    assert paths == [os.path.abspath(sys.path[-1])]


def test_a_machine_that_leaves_is_told_once_and_recorded(tmp_path, monkeypatch):
    there = [{"NodeID": name * 16, "Alive": True, "NodeManagerHostname": f"host-{name}",
              "NodeManagerAddress": "10.0.0.1"} for name in "ab"]
    monkeypatch.setattr(ray, "nodes", lambda: there)
    nodes = Nodes(tmp_path, "the search")
    nodes.look(now=True)
    assert not (tmp_path / "events.jsonl").exists()
    there[1] |= {"Alive": False, "DeathReasonMessage": "health check\nfailed"}
    with pytest.warns(NodeWarning, match=r"host-b \(10.0.0.1, node bbbbbbbb\) left .*health check failed; .*: 1"):
        nodes.look(now=True)
    nodes.look(now=True)
    event = json.loads((tmp_path / "events.jsonl").read_text())
    assert (event["kind"], event["stage"]) == ("node_left", "the search") and "host-b" in event["says"]


def test_a_machine_is_missed_before_ray_counts_enough_heartbeats(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        node = {"NodeID": "c" * 16, "Alive": True, "NodeManagerAddress": "127.0.0.1",
                "NodeManagerPort": listening.getsockname()[1]}
        monkeypatch.setattr(ray, "nodes", lambda: [node])
        nodes = Nodes(tmp_path, "training")
        nodes.look(now=True)
        assert not (tmp_path / "events.jsonl").exists()
    with pytest.warns(NodeWarning, match="its Ray process no longer runs; .*remaining machines: 0"):
        nodes.look(now=True)
    node["Alive"] = False  # now Ray knows, too
    nodes.look(now=True)
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) == 1


def test_a_machine_is_told_of_where_the_folder_cannot_be_written(tmp_path, monkeypatch):
    node = {"NodeID": "d" * 16, "Alive": True}
    monkeypatch.setattr(ray, "nodes", lambda: [node])
    nodes = Nodes(tmp_path / "nowhere", "training")
    node["Alive"] = False
    with pytest.warns(NodeWarning, match="remaining machines: 0"):
        nodes.look(now=True)
