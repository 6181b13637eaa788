"""The suite of transports over ours, each with a device of its own."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hardware_profiles import transports
from hardware_profiles.transports import Base, Job, Waiting
from nas.testing import TransportContract
from nas.testing.transports import working_in
from tests.hardware_profiles.fixtures.devices import (  # noqa: F401 - fixtures
    Server,
    phone_fixture,
    phone_settings,
    server_fixture,
)


class TestLocal(TransportContract):
    name = "local"


class TestSsh(TransportContract):
    name, settings = "ssh", {"host": "a-host"}

    @pytest.fixture
    def transport(self, server: Server) -> Base:
        return self.make(server.settings())

    def idle(self, folder: Path) -> bool:
        return not working_in(folder) and not working_in(Path("store", "jobs"))


class TestAdb(TransportContract):
    name = "adb"

    @pytest.fixture
    def transport(self, phone: Path) -> Base:
        return self.make(phone_settings(phone))


class TestBundle(TransportContract):
    """A bundle is carried by hand: nothing runs while its transport does."""

    name, interruptible = "bundle", False

    @pytest.fixture
    def transport(self, tmp_path: Path) -> Base:
        return self.make({"file": str(tmp_path / "carried.zip")})

    def run(self, transport: Base, job: Job, sink: Callable[[dict[str, Any]], None]) -> None:
        with pytest.raises(Waiting):
            transport.run(job, sink)
        device = job.folder.parent / "device"
        with zipfile.ZipFile(transport.file) as bundle:  # type: ignore[attr-defined]
            bundle.extractall(device)
        (folder,) = device.iterdir()
        subprocess.run([sys.executable, "measure.py", "."], cwd=folder, check=True, capture_output=True)
        path = transport.results(job)  # type: ignore[attr-defined]
        (folder / path.name).rename(path)
        transport.run(job, sink)


def test_every_transport_is_tried_here() -> None:
    tried = {each.name for each in TransportContract.__subclasses__() if each.__module__ == __name__}
    assert tried == set(transports.names())
