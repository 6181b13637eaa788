"""The contract of a transport: how a job reaches a device and its rounds come back.

A transport is one file, of this folder or of the user, that holds

- `HELP`: what it reaches, in a few words;
- `SETTINGS`: a pydantic model of the settings under `transport` in a device file, a subclass of `TransportSettings`;
- `TRANSPORT`: a subclass of `Base`;
- `TOOL`: the program that it needs on this machine, None if it needs none;
- `missing(settings)`: why no device can be reached from this machine, such as a missing program, or None. It does not
contact the device.
"""

from __future__ import annotations

import glob
import hashlib
import json
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo

from hardware_profiles import protocol, runtimes
from hardware_profiles.protocol import Protocol
from search_spaces.errors import InputError

Sink = Callable[[dict[str, Any]], None]
"""Takes one line of a job's output: a header, a finished round, or a peak of memory."""
Stop = Callable[[], bool]


class Waiting(InputError):  # noqa: N818 - nothing went wrong
    """Not an error: the user must carry a file to a device and back; then the same call resumes."""


class TransportSettings(BaseModel):
    """The settings under `transport` in a device file."""

    model_config = ConfigDict(frozen=True, extra="forbid")


STORED = {"stored": True}
"""Validation context for reading measured profiles: settings that were allowed then are accepted, and refused only when
the device is used."""


def is_stored(info: ValidationInfo) -> bool:
    """Whether settings are read from a measured profile and not to be used."""
    return bool((info.context or {}).get("stored"))


@dataclass(frozen=True)
class Model:
    """A compiled workload: its name, its file in the job's folder, and the inputs it takes."""

    name: str
    file: str
    inputs: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Job:
    """A job for a device: a folder that `measure.py` reads.

    Args:
        folder: holds `models/` already; `write` puts the rest beside it.
        runtime: its name.
        before: rounds that were measured earlier and count.
        memory_of: instead of timing, measure the peak memory of this one model.
    """

    folder: Path
    runtime: str
    options: Mapping[str, Any]
    models: Sequence[Model]
    reference: str
    protocol: Protocol = Protocol()
    before: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    memory_of: str | None = None

    @property
    def key(self) -> str:
        """Identity of the job: SHA-256 of its workloads, runtime and options.

        It includes the seed of the protocol, which distinguishes repeated measurements; other settings and earlier
        rounds may change between two calls. So may the bytes of the models: two compilations of one workload need not
        be equal.
        """
        data = {"schema_version": protocol.SCHEMA_VERSION, "runtime": self.runtime, "options": dict(self.options),
                "seed": self.protocol.seed,
                "reference": self.reference, "memory_of": self.memory_of,
                "workloads": sorted((model.name, [dict(one) for one in model.inputs]) for model in self.models)}
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()

    @property
    def done(self) -> bool:
        """Whether the earlier rounds are enough."""
        names = [model.name for model in self.models]
        return not self.memory_of and not protocol.due(names, self.reference, self.protocol, list(self.before))

    def files(self) -> list[str]:
        """The files that the device needs after `write`, as paths in the folder, including files next to a model.

        A runtime may store weights next to a model, with the model's name as prefix; the folder may contain models of
        other jobs.
        """
        names = {"job.json", "measure.py", "runtime.py"}
        for model in self.models:
            path = self.folder / model.file
            beside = path.parent.glob(f"{glob.escape(path.name)}*")
            names |= {one.relative_to(self.folder).as_posix() for one in beside if one.is_file()}
        return sorted(names)

    def write(self, results: str | None = None) -> None:
        """Put `job.json`, `measure.py` and `runtime.py` into the folder.

        Args:
            results: the file the device writes its lines to; without one it prints them.
        """
        data = {"schema_version": protocol.SCHEMA_VERSION, "key": self.key, "options": dict(self.options),
                "reference": self.reference, "protocol": self.protocol._asdict(), "before": list(self.before),
                "memory_of": self.memory_of, "results": results,
                "workloads": [{"name": model.name, "file": model.file, "inputs": list(model.inputs)}
                              for model in self.models]}
        (self.folder / "job.json").write_text(json.dumps(data), "utf-8")
        shutil.copyfile(str(protocol.__file__), self.folder / "measure.py")
        shutil.copyfile(str(runtimes.get(self.runtime).__file__), self.folder / "runtime.py")


class Base(ABC):
    """Access to one device.

    `MEMORY` says whether jobs with `memory_of` can be run, `HERE` whether the device is this machine.
    """

    MEMORY, HERE = True, False

    def __init__(self, settings: Any, device_name: str) -> None:
        self.settings, self.device_name = settings, device_name

    @abstractmethod
    def check(self, runtime: str | None = None) -> None:
        """Raises InputError that says why the device cannot be reached or used, and what to do.

        Args:
            runtime: its requirements are checked on the device, too.
        """

    @abstractmethod
    def run(self, job: Job, sink: Sink, stop: Stop = lambda: False) -> None:
        """Run a job and hand every line to the sink as soon as it is there.

        A lost connection raises InputError; lines already passed to the sink are kept, and the next call resumes after
        them.
        """

    def cut(self, why: str) -> InputError:
        """The error for a lost connection."""
        return InputError(self.device_name, f"the connection was lost ({why}); finished rounds are kept; rerun the "
                                            "same command to resume")


def safe_name(name: str) -> str:
    """A device name as a valid file name on any system."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:80] or "device"
