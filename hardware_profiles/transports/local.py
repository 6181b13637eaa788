"""This machine: a job runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from hardware_profiles.transports._base import Base, Job, Sink, Stop, TransportSettings, parse_lines
from search_spaces.errors import InputError


class Settings(TransportSettings):
    """Nothing to say."""


class Transport(Base):
    """Runs `measure.py` with this Python."""

    def check(self) -> None:
        """There is always a way to this machine."""

    def run(self, job: Job, sink: Sink, stop: Stop = lambda: False) -> None:
        """See `Base.run`."""
        job.write()
        command = [sys.executable, "measure.py", "."]
        with subprocess.Popen(command, cwd=job.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,  # noqa: S603
                              text=True) as process:
            assert process.stdout is not None and process.stderr is not None
            try:
                for line in parse_lines(iter(process.stdout.readline, ""), self.device_name):
                    sink(line)
                    if stop():
                        process.terminate()
                        return
                says = process.stderr.read().strip().splitlines()
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            raise InputError(self.device_name, f"the runner ended with code {process.returncode}: "
                                               f"{says[-1] if says else 'it said nothing'}")
