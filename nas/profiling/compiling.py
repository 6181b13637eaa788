"""Workloads compiled to files: in several processes, and once, for files are kept and found again by their content."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardware_profiles import runtimes
from hardware_profiles.profile import Device
from hardware_profiles.stored import Conditions
from hardware_profiles.transports._base import Model
from nas.profiling import sources
from nas.profiling.fresh import Pool
from nas.profiling.workloads import Workload, described, greatest_token
from nas.run_dir import write_json
from search_spaces import InputError


@dataclass(frozen=True)
class Compiled:
    """A compiled workload, what the runtime said of it, and how long it took."""

    model: Model
    facts: dict[str, Any]
    seconds: float


class Compiler:
    """Compiles workloads for a device into `folder/models`."""

    def __init__(self, device: Device, conditions: Conditions, folder: Path) -> None:
        self.device, self.conditions, self.folder = device, conditions, folder
        (folder / "models").mkdir(parents=True, exist_ok=True)
        settings = {"options": device.runtime_options(), "versions": runtimes.get(device.runtime).versions(),
                    "conditions": conditions.model_dump()}
        self.settings = json.dumps(settings, sort_keys=True)

    def file(self, workload: Workload) -> str:
        """Where a workload's file stands in the folder: another one where the settings or its code are others."""
        key = hashlib.sha256((self.settings + sources.of_kinds(workload.kinds)).encode()).hexdigest()[:12]
        return f"models/{workload.name}-{key}{runtimes.get(self.device.runtime).SUFFIX}"

    def known(self, workload: Workload) -> Compiled | None:
        """A workload that was compiled before."""
        path = self.folder / self.file(workload)
        try:
            data = json.loads(path.with_suffix(".json").read_text("utf-8"))
            return self._compiled(workload, data) if path.is_file() else None
        except (OSError, ValueError, KeyError):
            return None

    def _compiled(self, workload: Workload, data: dict[str, Any]) -> Compiled:
        return Compiled(Model(workload.name, data["file"], data["inputs"]), data["facts"], float(data["seconds"]))

    def compile(self, workload: Workload) -> Compiled:
        """Compile one workload here. Raises InputError that names it where the runtime cannot take it."""
        known = self.known(workload)
        if known is not None:
            return known
        module, inputs = workload.build(self.conditions)
        path, start = self.folder / self.file(workload), time.monotonic()
        try:
            facts = runtimes.get(self.device.runtime).compile(module, inputs, path, self.device.runtime_options())
        except InputError as error:
            raise InputError(f"{workload}", f"{self.device.runtime} cannot run it: {error}") from None
        data = {"schema_version": 1, "file": self.file(workload), "facts": facts,
                "seconds": time.monotonic() - start, "inputs": described(inputs, greatest_token(workload.what))}
        write_json(path.with_suffix(".json"), data)
        return self._compiled(workload, data)

    def compile_all(self, workloads: Sequence[Workload], done: Callable[[], None],
                    stop: Callable[[], bool]) -> dict[str, Compiled]:
        """Compile many; `done` is called after each. Gives fewer where `stop` asked for it."""
        found: dict[str, Compiled] = {}
        todo = []
        for workload in workloads:
            known = self.known(workload)
            if known is None:
                todo.append(workload)
            else:
                found[workload.name] = known
                done()
        for name, compiled in self._in_processes(todo, stop):
            found[name] = compiled
            done()
        return found

    def _in_processes(self, workloads: Sequence[Workload],
                      stop: Callable[[], bool]) -> Iterator[tuple[str, Compiled]]:
        if not workloads:
            return
        with Pool(min(processes(), len(workloads)), _quiet) as pool:
            waiting = {pool.submit(self.compile, workload): workload.name for workload in workloads}
            try:
                for future in as_completed(waiting):
                    yield waiting[future], future.result()
                    if stop():
                        return
            except BrokenProcessPool:
                if stop():
                    return
                raise InputError(self.device.name, "a compiling process was killed, most likely for lack of memory; "
                                                   "what is compiled is kept, call again to go on") from None
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


def processes() -> int:
    """How many workloads are compiled at a time."""
    return os.cpu_count() or 1


def _quiet() -> None:
    """One thread each, and being asked to stop is the parent's to handle."""
    import signal

    import torch

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    torch.set_num_threads(1)
