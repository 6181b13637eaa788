"""Watches the machines of a Ray cluster: machines that leave during a stage are reported on the screen, in the log and
in the run."""

from __future__ import annotations

import json
import socket
import time
import warnings
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import ray

EVENTS = "events.jsonl"
"""File in a run's folder with events other than results, one JSON object per line."""
LOOK_S, ANSWER_S = 5.0, 0.5
"""Seconds between checks of the machines, and time limit of a connection."""


class NodeWarning(UserWarning):
    """A machine left the cluster."""


class Nodes:
    """Detects machines that die or are removed.

    Args:
        folder: the run's, where it is recorded.
        stage: what runs on the cluster.
    """

    def __init__(self, folder: Path, stage: str) -> None:
        self.folder, self.stage = folder, stage
        self._known = {node["NodeID"] for node in _nodes() if node["Alive"]}
        self._gone: set[str] = set()
        self._looked = time.monotonic()

    def look(self, now: bool = False) -> None:
        """Report machines that left since the last check; rate-limited unless `now`."""
        if not now and time.monotonic() - self._looked < LOOK_S:
            return
        nodes = _nodes()
        left = [node for node in nodes if node["NodeID"] in self._known - self._gone and _has_left(node)]
        self._gone |= {node["NodeID"] for node in left}
        self._known |= {node["NodeID"] for node in nodes if node["Alive"]}
        for node in left:
            self._tell(node, sum(other["Alive"] and other["NodeID"] not in self._gone for other in nodes))
        self._looked = time.monotonic()

    def _tell(self, node: dict[str, Any], left: int) -> None:
        name, address = node.get("NodeManagerHostname"), node.get("NodeManagerAddress")
        why = " ".join(str(node.get("DeathReasonMessage") or "its Ray process no longer runs").split())[:200]
        message = (f"the machine {name} ({address}, node {node['NodeID'][:8]}) left the Ray cluster during "
                   f"{self.stage}: {why}; its work is repeated on other machines; remaining machines: {left}")
        event = {"schema_version": 1, "time": datetime.now().astimezone().isoformat(timespec="seconds"),
                 "kind": "node_left", "stage": self.stage, "says": message}
        with suppress(OSError), (self.folder / EVENTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")
        warnings.warn(message, NodeWarning, stacklevel=2)


def _has_left(node: dict[str, Any]) -> bool:
    """Whether a machine is dead, or will soon be declared dead: Ray waits 15 s for missed heartbeats."""
    if not node["Alive"]:
        return True
    try:
        with socket.create_connection((node["NodeManagerAddress"], node["NodeManagerPort"]), ANSWER_S):
            return False
    except ConnectionRefusedError:
        return True
    except (OSError, KeyError):  # perhaps a firewall or a busy machine: Ray decides
        return False


def _nodes() -> list[dict[str, Any]]:
    """Every machine that Ray knows; none if the connection is being lost."""
    try:
        return list(ray.nodes())  # type: ignore[no-untyped-call]
    except Exception:  # Ray raises many types; the running call reports the error
        return []
