"""This machine: a job runs in a process of its own."""

from __future__ import annotations

import sys

from hardware_profiles import measure
from hardware_profiles.transports._base import Base, Job, Sink, Stop, TransportSettings
from hardware_profiles.transports._process import LEASE_S, stream
from hardware_profiles.transports._rounds import parse_line
from search_spaces.errors import InputError


class Settings(TransportSettings):
    """Nothing to say."""


class Transport(Base):
    """Runs `measure.py` with this Python."""

    def check(self, runtime: str | None = None) -> None:
        """There is always a way to this machine; whether the runtime is there, its `missing` says."""

    def run(self, job: Job, sink: Sink, stop: Stop = lambda: False) -> None:
        """See `Base.run`."""
        job.write()
        ended = stream([sys.executable, "measure.py", ".", "--lease", str(LEASE_S)],
                       lambda text: sink(parse_line(text, self.device_name)), stop, cwd=job.folder)
        if ended.code == measure.LEASE_ENDED and not ended.stopped:
            raise self.cut("this program was halted for a while")
        if ended.code and not ended.stopped:
            raise InputError(self.device_name, f"the runner ended with code {ended.code}: {ended.says}")
