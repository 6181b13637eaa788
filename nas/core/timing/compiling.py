"""Compiles workloads to files in several processes, once each: files are cached by content."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hardware_profiles import runtimes
from hardware_profiles.device import Device
from hardware_profiles.profile import Conditions
from hardware_profiles.transports import Model
from nas.core.run_dir import write_json
from nas.core.timing import sources
from nas.core.timing.fresh import FreshPool
from nas.core.timing.workloads import Workload, described, greatest_token
from search_spaces import InputError
from search_spaces.files.reading import read_table

POLL_S = 0.2
_compiled: list[str] = []
"""Workloads compiled by this process."""


@dataclass(frozen=True)
class Compiled:
    """A compiled workload, facts from the runtime, and the compile time.

    Args:
        first: whether it was the first of its process, which imports the runtime's libraries as well.
    """

    model: Model
    facts: dict[str, Any]
    seconds: float
    first: bool = False


class Compiler:
    """Compiles workloads for a device into `folder/models`."""

    def __init__(self, device: Device, conditions: Conditions, folder: Path) -> None:
        self.device, self.conditions, self.folder = device, conditions, folder
        (folder / "models").mkdir(parents=True, exist_ok=True)
        settings = {"options": device.runtime_options(), "versions": runtimes.get(device.runtime).versions(),
                    "conditions": conditions.model_dump()}
        self.settings = json.dumps(settings, sort_keys=True)

    def file(self, workload: Workload) -> str:
        """The path of a workload's file; depends on the settings and the source code."""
        key = hashlib.sha256((self.settings + sources.of_kinds(workload.kinds)).encode()).hexdigest()[:12]
        return f"models/{workload.name}-{key}{runtimes.get(self.device.runtime).SUFFIX}"

    def known(self, workload: Workload) -> Compiled | None:
        """A workload that was compiled before."""
        path = self.folder / self.file(workload)
        try:
            data = read_table(path.with_suffix(".json"))
            return self._compiled(workload, data) if path.is_file() else None
        except (InputError, ValueError, KeyError, TypeError):  # recompiled
            return None

    def _compiled(self, workload: Workload, data: dict[str, Any]) -> Compiled:
        return Compiled(Model(workload.name, data["file"], data["inputs"]), data["facts"], float(data["seconds"]))

    def compile(self, workload: Workload) -> Compiled:
        """Compile one workload in this process. Raises InputError that names it if the runtime does not support it."""
        known = self.known(workload)
        if known is not None:
            return known
        runtime = runtimes.get(self.device.runtime)
        module, inputs = workload.build(self.conditions, "open" if getattr(runtime, "OPEN_SIZES", False) else "fixed")
        path, start = self.folder / self.file(workload), time.monotonic()
        try:
            facts = runtime.compile(module, inputs, path, self.device.runtime_options())
        except InputError as error:
            raise InputError(f"{workload}", f"{self.device.runtime} cannot run it: {error}") from None
        data = {"schema_version": 1, "file": self.file(workload), "facts": facts,
                "seconds": time.monotonic() - start, "inputs": described(module, inputs, greatest_token(workload.what))}
        write_json(path.with_suffix(".json"), data)
        first = not _compiled
        _compiled.append(workload.name)
        return replace(self._compiled(workload, data), first=first)

    def compile_all(self, workloads: Sequence[Workload], done: Callable[[Compiled | None], None],
                    stop: Callable[[], bool], more: Callable[[], bool] = lambda: True, least: int | None = None,
                    pool: FreshPool | None = None) -> dict[str, Compiled]:
        """Compile many, in order; returns fewer if `stop` or `more` ends it.

        Args:
            done: called after each, with what was compiled; with None if it was known.
            more: whether there is time to start another one; not called for the first `least` workloads.
            pool: processes to use; by default new ones.
        """
        results = {workload.name: known for workload in workloads if (known := self.known(workload)) is not None}
        for _ in results:
            done(None)
        first = {workload.name for workload in workloads[:least]}
        todo = [(workload, workload.name in first) for workload in workloads if workload.name not in results]
        if todo:
            with nullcontext(pool) if pool else FreshPool(min(processes(), len(todo)), one_thread) as workers:
                for name, compiled in self._in_processes(todo, stop, more, workers):
                    results[name] = compiled
                    done(compiled)
        return results

    def _in_processes(self, workloads: Sequence[tuple[Workload, bool]], stop: Callable[[], bool],
                      more: Callable[[], bool], pool: FreshPool) -> Iterator[tuple[str, Compiled]]:
        """Starts no more workloads than processes, because started ones are always finished."""
        todo, running = deque(workloads), dict[Future[Compiled], str]()
        try:
            while not stop():
                while todo and len(running) < processes() and (todo[0][1] or more()):
                    workload, _ = todo.popleft()
                    running[pool.submit(self.compile, workload)] = workload.name
                if not running:
                    return
                for future in wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BrokenProcessPool:
            if not stop():
                raise InputError(self.device.name, "a compiling process was killed, probably because memory ran out; "
                                                   "compiled files are kept; rerun the same command to resume"
                                 ) from None


def processes() -> int:
    """How many workloads are compiled at a time."""
    return os.cpu_count() or 1


def one_thread() -> None:
    """Use one thread per process."""
    import torch

    torch.set_num_threads(1)
