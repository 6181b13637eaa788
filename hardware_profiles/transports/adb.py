"""An Android device via adb: the user's runner is pushed to the device and times the models one after the other.

The defaults fit ExecuTorch's `executor_runner`, which prints the time of all executions together. Depending on its
platform layer, it prints to the system log or to standard output: both are read.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from hardware_profiles import protocol, transports
from hardware_profiles.transports._adb_client import Adb
from hardware_profiles.transports._base import Base, Job, Model, Sink, Stop, TransportSettings, is_stored
from hardware_profiles.transports._files import digest
from hardware_profiles.transports._rounds import check_rounds
from search_spaces.errors import InputError

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_PROPERTIES = {"system": "ro.build.version.release", "cpu": "ro.soc.model", "model": "ro.product.model",
               "board": "ro.board.platform"}
_GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"


class AdbSettings(TransportSettings):
    """Which device, which runner, and how to read its output."""

    serial: str | None = Field(None, pattern=r"^\w[\w.:-]*$", description="serial number from `adb devices`, if "
                                                                          "several devices are connected")
    adb: str = Field("adb", min_length=1, description="absolute path of adb on this machine; ~ is allowed")
    runner: str = Field("executor_runner", min_length=1, description="path on this machine of the Android binary that "
                                                                     "runs models")
    folder: str = Field("/data/local/tmp/paretoformer", pattern=r"^/[^\x00-\x1f,]+$", description="working folder on "
                                                                                                  "the device")
    command: tuple[str, ...] = Field(
        ("--model_path={model}", "--inputs={inputs}", "--num_executions={repeats}", "--cpu_threads={threads}"),
        description="arguments of the runner; {model}, {inputs}, {repeats} and {threads} are replaced")
    repeats: int = Field(20, ge=1, description="executions per run of the runner")
    pattern: str = Field(r"executed successfully (?P<n>\d+) time\(s\) in (?P<ms>\S+) ms",
                         description="regular expression for the time in its output: a group s, ms or us; n divides it")
    logcat: str | None = Field("ExecuTorch", pattern=r"^\w[\w.-]*$", description="tag of its lines in logcat")
    timeout_s: int = Field(300, ge=1, description="time limit of one run of the runner, in seconds")

    @field_validator("adb")
    @classmethod
    def _only_adb(cls, adb: str, info: ValidationInfo) -> str:
        """A device file may come from someone else: it must not name another program, or one that others can write."""
        path = Path(adb)
        if not is_stored(info) and adb != "adb" and (
                path.name not in ("adb", "adb.exe") or not path.expanduser().is_absolute() or not adb.isprintable()):
            raise ValueError(f"{adb!r} is not allowed; allowed: adb, or the absolute path of a program called adb")
        return adb

    @field_validator("runner")
    @classmethod
    def _plain_runner(cls, runner: str) -> str:
        if runner.startswith("-") or not runner.isprintable():
            raise ValueError(f"{runner!r} is not allowed; allowed: a path that does not start with a dash")
        return runner

    @field_validator("command")
    @classmethod
    def _has_model(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        if not any("{model}" in word for word in command):
            raise ValueError("must contain {model}, the path of the model to run")
        return command

    @field_validator("pattern")
    @classmethod
    def _has_time(cls, pattern: str) -> str:
        try:
            groups = set(re.compile(pattern).groupindex)
        except re.error as error:
            raise ValueError(f"is not a regular expression ({error})") from None
        if len(groups & set(SECONDS)) != 1 or groups - set(SECONDS) - {"n"}:
            raise ValueError("must have one group named s, ms or us, such as (?P<ms>\\S+), and may have one named n")
        return pattern


def missing(settings: AdbSettings) -> str | None:
    """Why this transport is not available on this machine; None if it is."""
    program = shutil.which(Path(settings.adb).expanduser())
    if not program:
        return (f"{settings.adb} not found; install Android's platform tools or set transport.adb to the "
                "path of adb")
    if settings.adb != "adb" and not _trusted(Path(program)):
        return (f"{settings.adb} is writable by other users, and the device file would run it; use the adb on PATH, or "
                "remove write permission for others from it and its folder")
    if not Path(settings.runner).expanduser().is_file():
        return (f"runner {settings.runner} not found; build ExecuTorch's executor_runner for Android and set "
                "transport.runner to its path")
    return None


def _trusted(path: Path) -> bool:
    """Whether only this user and root can change a program: the file and its folder."""
    return all(place.stat().st_uid in (0, os.geteuid()) and not place.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
               for place in (path.resolve(), path.resolve().parent))


class AdbTransport(Base):
    """Pushes missing files, and starts the runner for every sample."""

    MEMORY = False
    settings: AdbSettings

    def check(self, runtime: str | None = None) -> None:
        """See `Base.check`."""
        self._client().choose()

    def run(self, job: Job, sink: Sink, stop: Stop = lambda: False) -> None:
        """See `Base.run`."""
        if job.memory_of:
            raise transports.refuse_memory(self.device_name, "adb")
        client, runner = self._client(), Path(self.settings.runner).expanduser()
        client.choose()
        here = client.listed(self.settings.folder)
        program = self._push(client, runner, here)
        client.shell(["chmod", "755", program])
        sink({"schema_version": protocol.SCHEMA_VERSION, "job": job.key, "machine": self._machine(client),
              "versions": {"runner": digest(runner)[:16], "repeats": str(self.settings.repeats)}})
        runs = {model.name: self._timed(client, program, model, job, here) for model in job.models}
        finished = list(job.before)

        def emit(line: dict[str, Any]) -> None:
            finished.append(line)
            sink(line)

        protocol.rounds(runs, job.reference, job.protocol, emit, job.before, stop, cold=True)
        check_rounds(finished, job.reference, self.device_name)

    def _client(self) -> Adb:
        why = missing(self.settings)
        if why:
            raise InputError(self.device_name, why)
        executable = str(Path(self.settings.adb).expanduser())
        return Adb(executable, self.settings.serial, self.device_name, self.settings.timeout_s, self.cut)

    def _push(self, client: Adb, path: Path, here: set[str]) -> str:
        """Push a file; returns its path on the device, named by its hash."""
        name = digest(path)[:32] + ("".join(re.findall(r"^\.\w+$", path.suffix, re.ASCII)))
        target = f"{self.settings.folder}/{name}"
        if name not in here:
            client.push(path.resolve(), target)
            here.add(name)
        return target

    def _timed(self, client: Adb, program: str, model: Model, job: Job, here: set[str]) -> Callable[[], float]:
        """A function that starts the runner once and returns the seconds of one execution."""
        inputs = []
        if any("{inputs}" in word for word in self.settings.command):
            for array in protocol.random_inputs(model.inputs):
                with tempfile.NamedTemporaryFile(suffix=".bin") as file:
                    file.write(array.tobytes())
                    file.flush()
                    inputs.append(self._push(client, Path(file.name), here))
        filled = {"{model}": self._push(client, job.folder / model.file, here), "{inputs}": ",".join(inputs),
                  "{repeats}": str(self.settings.repeats), "{threads}": str(job.options.get("threads", 1))}
        words = [re.sub(r"\{(model|inputs|repeats|threads)\}", lambda match: filled[match[0]], word)
                 for word in self.settings.command]
        return lambda: self._seconds(client, [program, *words], model.name)

    def _seconds(self, client: Adb, words: list[str], name: str) -> float:
        output, log = client.started(words, self.settings.folder, self.settings.logcat, self.settings.pattern)
        matches = list(re.finditer(self.settings.pattern, output)) or list(re.finditer(self.settings.pattern, log))
        match = matches[-1] if matches else None  # the log may contain earlier runs with the same process id
        printed = " | ".join((output + log).split("\n"))[-160:].strip(" |") or "nothing"
        if not match:
            raise InputError(self.device_name, f"the runner printed no time for {name}, but {printed!r}; set "
                                               "transport.pattern to match its output, and transport.logcat if it logs")
        unit = next(unit_name for unit_name in SECONDS if unit_name in match.groupdict())
        try:
            seconds = SECONDS[unit] * float(match[unit]) / int(match.groupdict().get("n", 1))
        except (ValueError, ZeroDivisionError):
            seconds = math.nan
        if not math.isfinite(seconds) or seconds <= 0:
            raise InputError(self.device_name, f"the runner printed {match[0]!r} for {name}; a time is a finite number "
                                               "above 0; run it manually to find the cause")
        return seconds

    def _machine(self, client: Adb) -> dict[str, str]:
        properties = {name: client.shell(["getprop", prop]).strip() for name, prop in _PROPERTIES.items()}
        properties["system"] = f"Android {properties['system']}"
        properties["cpu"] = properties["cpu"] or properties["board"]
        properties["governor"] = client.shell(["cat", _GOVERNOR], fails=False).strip()
        return {name: value for name, value in properties.items() if value}


HELP, TOOL = "an Android device reached by adb", "adb"
SETTINGS, TRANSPORT = AdbSettings, AdbTransport
