"""This machine: a job runs in a separate process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hardware_profiles import protocol, runtimes
from hardware_profiles.transports._base import Base, Job, Sink, Stop, TransportSettings
from hardware_profiles.transports._process import LEASE_S, stream
from hardware_profiles.transports._rounds import parse_line
from search_spaces.errors import InputError

_START = ("import sys; sys.path[:] = sys.argv.pop(1).split('\\n'); del sys.argv[0]; import runpy; "
          "runpy.run_path(sys.argv[0], run_name='__main__')")
"""Runs a file with given import paths; the interpreter is isolated until then."""


class LocalSettings(TransportSettings):
    """The local transport has no settings."""


def command(folder: Path, runtime: str) -> list[str]:
    """The command that runs `measure.py` in a job's folder.

    No code from the folder is run, because others may be able to write there: neither imports from it or from the
    working directory, nor the copies of `measure.py` and the runtime.
    """
    paths = [path for path in sys.path if os.path.isabs(path) and Path(path).resolve() != folder.resolve()]
    return [sys.executable, "-I", "-c", _START, "\n".join(paths), str(Path(str(protocol.__file__)).absolute()), ".",
            "--lease", str(LEASE_S), "--runtime", str(Path(str(runtimes.get(runtime).__file__)).absolute())]


def missing(settings: LocalSettings) -> str | None:
    """Nothing is needed."""
    return None


class LocalTransport(Base):
    """Runs `measure.py` with this Python."""

    HERE = True

    def check(self, runtime: str | None = None) -> None:
        """This machine is always reachable; `missing` of the runtime says whether it is installed."""

    def run(self, job: Job, sink: Sink, stop: Stop = lambda: False) -> None:
        """See `Base.run`."""
        job.write()
        ended = stream(command(job.folder, job.runtime), lambda text: sink(parse_line(text, self.device_name)), stop,
                       cwd=job.folder)
        if ended.code == protocol.LEASE_ENDED and not ended.stopped:
            raise self.cut("this process was suspended during the measurement")
        if ended.code and not ended.stopped:
            raise InputError(self.device_name, f"the runner ended with code {ended.code}: {ended.message}")


HELP, TOOL = "this machine", None
SETTINGS, TRANSPORT = LocalSettings, LocalTransport
