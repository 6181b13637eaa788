"""The contract of a transport: how a job reaches a device and its rounds come back.

A transport is one file of this folder with `Settings`, a pydantic model of what a device's YAML may say under
`transport`, and `Transport`, a subclass of `Base`.
"""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from hardware_profiles import measure, runtimes
from search_spaces.errors import InputError

Sink = Callable[[dict[str, Any]], None]
"""Takes one line of a job's output: a header, a finished round, or a peak of memory."""
Stop = Callable[[], bool]


class TransportSettings(BaseModel):
    """What a device's YAML may say under `transport`."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class Model:
    """A compiled workload: its name, its file in the job's folder, and the inputs it takes."""

    name: str
    file: str
    inputs: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Job:
    """What a device has to run: a folder that `measure.py` understands.

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
    protocol: measure.Protocol = measure.Protocol()
    before: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    memory_of: str | None = None

    def write(self) -> None:
        """Put `job.json`, `measure.py` and `runtime.py` into the folder."""
        data = {"schema_version": measure.SCHEMA_VERSION, "options": dict(self.options), "reference": self.reference,
                "protocol": self.protocol._asdict(), "before": list(self.before), "memory_of": self.memory_of,
                "workloads": [{"name": each.name, "file": each.file, "inputs": list(each.inputs)}
                              for each in self.models]}
        (self.folder / "job.json").write_text(json.dumps(data), "utf-8")
        shutil.copyfile(str(measure.__file__), self.folder / "measure.py")
        shutil.copyfile(str(runtimes.get(self.runtime).__file__), self.folder / "runtime.py")


class Base(ABC):
    """A way to one device."""

    def __init__(self, settings: Any, device_name: str) -> None:
        self.settings, self.device_name = settings, device_name

    @abstractmethod
    def check(self) -> None:
        """Raises InputError that says why the device cannot be reached, and what to do."""

    @abstractmethod
    def run(self, job: Job, sink: Sink, stop: Stop = lambda: False) -> None:
        """Run a job and hand every line to the sink as soon as it is there.

        A connection that breaks raises InputError; what the sink got is kept, and the next call goes on after it.
        """


def parse_line(text: str, device_name: str) -> dict[str, Any]:
    """One line of a job's output. Raises InputError where it is not what `measure.py` prints."""
    try:
        line = json.loads(text)
        rounds = line.get("seconds")
        known = "versions" in line or "peak_bytes" in line or isinstance(rounds, list)
        if not known:
            raise ValueError("neither a header nor a round")
        for name, seconds in rounds or ():
            if not isinstance(name, str) or not isinstance(seconds, (int, float)):
                raise ValueError("a sample is not a name and a number")
        return dict(line)
    except (ValueError, AttributeError, TypeError) as error:
        says = text.strip()[:80]
        raise InputError(device_name, f"printed {says!r} where a line of timings was expected ({error}); run the "
                                      "runner by hand to see what is wrong") from None


def parse_lines(lines: Iterator[str], device_name: str) -> Iterator[dict[str, Any]]:
    """The lines of a job's output, empty ones left out."""
    for text in lines:
        if text.strip():
            yield parse_line(text, device_name)
