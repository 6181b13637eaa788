"""The capacity of a Ray cluster, and the packages sent to its machines."""

from __future__ import annotations

import importlib
import os
import time
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import ray

from nas.stages.search.request import SearchCluster
from search_spaces import InputError, plugins
from search_spaces.errors import Option
from search_spaces.registry import GROUP

PACKAGES = ("nas", "search_spaces", "supernet", "hardware_profiles")
LOOK_S = 5.0
"""Seconds between checks of the machines, which may come and go."""


class Room:
    """The capacity of a cluster in workers."""

    def __init__(self, cluster: SearchCluster) -> None:
        self.cluster = cluster
        self._n_workers, self._looked = 0, float("-inf")

    @property
    def resources(self) -> dict[str, float]:
        """The resources of a worker, for Ray Tune."""
        return {"cpu": self.cluster.cpus_per_trial, "gpu": self.cluster.gpus_per_trial}

    def workers(self) -> int:
        """How many workers may run: the concurrency, limited by the current capacity; at least one."""
        if time.monotonic() - self._looked > LOOK_S:
            self._n_workers, self._looked = sum(map(self._fit, _machines())), time.monotonic()
        return max(1, min(self._n_workers, self.cluster.concurrency or self._n_workers))

    def check(self) -> None:
        """Raises InputError if no machine can run a worker: Ray would wait forever."""
        machines = _machines()
        if not any(map(self._fit, machines)):
            has = ", ".join(sorted(f"{_number(machine, 'CPU')} and {_number(machine, 'GPU')}" for machine in machines))
            wanted = f"{self.cluster.cpus_per_trial:g} CPUs and {self.cluster.gpus_per_trial:g} GPUs"
            raise InputError(Option("ray"), f"no machine of the cluster has the {wanted} that a worker needs; its "
                                            f"machines have {has or 'nothing'}; lower {Option('cpus_per_trial')} and "
                                            f"{Option('gpus_per_trial')}")

    def _fit(self, machine: dict[str, float]) -> int:
        wanted = {"CPU": self.cluster.cpus_per_trial, "GPU": self.cluster.gpus_per_trial}
        return min(int(machine.get(kind, 0) / amount + 1e-9) for kind, amount in wanted.items() if amount > 0)


def _machines() -> list[dict[str, float]]:
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def _number(machine: dict[str, float], kind: str) -> str:
    return f"{machine.get(kind, 0):g} {kind}s"


def packages() -> dict[str, Any]:
    """A runtime environment with our packages and those that add blocks, including their entry points."""
    places = dict.fromkeys(_place(importlib.import_module(name)) for name in PACKAGES)
    for point in entry_points(group=GROUP):
        places |= dict.fromkeys([_place(importlib.import_module(point.value.partition(".")[0])), *_metadata(point)])
    own = list(plugins.files())
    places |= dict.fromkeys(_place(plugin.module) for plugin in own)
    return {"py_modules": [str(place) for place in places], "excludes": ["**/__pycache__"],
            "env_vars": {plugins.VARIABLE: os.pathsep.join(plugin.name for plugin in own)}}


def _place(module: ModuleType) -> Path:
    """The folder of a package, or the file of a module that is not a package."""
    return Path(module.__path__[0] if hasattr(module, "__path__") else str(module.__file__))


def _metadata(point: EntryPoint) -> list[Path]:
    """The folder that names a package's entry points."""
    path = getattr(point.dist, "_path", None)
    return [Path(path)] if path is not None and Path(path).is_dir() else []
