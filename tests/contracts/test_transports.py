"""What every transport keeps to. A new one needs its settings in `SETTINGS`, and a device in `reach`."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hardware_profiles import protocol as measure
from hardware_profiles import transports
from hardware_profiles.transports._base import Base, Job, TransportSettings, Waiting
from search_spaces.errors import InputError
from tests.hardware_profiles.fixtures.devices import (  # noqa: F401 - fixtures
    make_job,
    phone_fixture,
    phone_settings,
    server_fixture,
    soon,
    standin,
    transport,
    working_in,
)

SETTINGS = {"local": {}, "ssh": {"host": "a-host"}, "adb": {}, "bundle": {}}
REMOTE = [name for name in transports.names() if name != "bundle"]
"""A bundle is carried by hand: nothing runs while its transport does."""


@pytest.fixture
def reach(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the transport of a name to a device that is there."""

    def make(name: str) -> Base:
        if name == "ssh":
            return transport(name, **request.getfixturevalue("server").settings())
        if name == "adb":
            return transport(name, **phone_settings(request.getfixturevalue("phone")))
        if name == "bundle":
            return transport(name, file=str(tmp_path / "carried.zip"))
        return transport(name)

    return make


def carried(made: Base, job: Job, sink: Any, stop: Any = lambda: False) -> None:
    """Run a job; carry a bundle to the device and back where one is written."""
    try:
        made.run(job, sink, stop)
    except Waiting:
        device = job.folder.parent / "device"
        with zipfile.ZipFile(made.file) as bundle:  # type: ignore[attr-defined]
            bundle.extractall(device)
        (folder,) = device.iterdir()
        subprocess.run([sys.executable, "measure.py", "."], cwd=folder, check=True, capture_output=True)
        path = made.results(job)  # type: ignore[attr-defined]
        (folder / path.name).rename(path)
        made.run(job, sink, stop)


def test_every_transport_is_tried_here() -> None:
    assert set(SETTINGS) == set(transports.names())


@pytest.mark.parametrize("name", transports.names())
def test_it_says_what_it_is_and_refuses_unknown_settings(name: str) -> None:
    module = transports.get(name)
    assert module.__doc__ and issubclass(module.SETTINGS, TransportSettings) and issubclass(module.TRANSPORT, Base)
    settings = module.SETTINGS(**SETTINGS[name])
    assert module.SETTINGS(**settings.model_dump()) == settings
    with pytest.raises(ValidationError):
        module.SETTINGS(**SETTINGS[name], a_setting_nobody_knows=1)


@pytest.mark.parametrize("name", transports.names())
def test_it_says_what_this_machine_lacks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    module = transports.get(name)
    why = getattr(module, "missing", lambda settings: None)(module.SETTINGS(**SETTINGS[name]))
    assert {"ssh": "ssh not found on this machine", "adb": "adb not found; install"}.get(name, "") in (why or "")
    if why:
        with pytest.raises(InputError, match=f"^a device: {why}"):
            transport(name, **SETTINGS[name]).check()


@pytest.mark.parametrize("name", transports.names())
def test_the_same_job_gives_rounds_of_the_same_workloads(name: str, reach: Any, tmp_path: Path) -> None:
    job, lines = make_job(tmp_path / "job"), []
    made = reach(name)
    made.check("standin")
    carried(made, job, lines.append)
    assert lines[0]["job"] == job.key and lines[0]["versions"] and lines[0]["machine"]["system"]
    rounds = [line for line in lines if "seconds" in line]
    assert [line["round"] for line in rounds] == [0, 1, 2]
    for line in rounds:
        names = [name for name, _ in line["seconds"]]
        assert set(names) == {"reference", "short", "long"} and names[0] == names[-1] == "reference"
    found = measure.summarise(rounds, job.reference)
    assert found["reference"].ms < found["short"].ms < found["long"].ms
    assert found["short"].ms == pytest.approx(2.0, rel=0.2)


@pytest.mark.parametrize("name", transports.names())
def test_it_goes_on_after_earlier_rounds(name: str, reach: Any, tmp_path: Path) -> None:
    job, lines = make_job(tmp_path / "job"), []
    before = [{"round": i, "seconds": [[each.name, 0.01 * (i + 1)] for each in job.models], "spent_s": 1.0}
              for i in range(2)]
    carried(reach(name), dataclasses.replace(job, before=before), lines.append)
    assert [line["round"] for line in lines if "seconds" in line] == [2]


@pytest.mark.parametrize("name", REMOTE)
def test_it_stops_and_leaves_nothing_running(name: str, reach: Any, tmp_path: Path) -> None:
    job, lines = make_job(tmp_path / "job", protocol={"most_rounds": 1000, "least_rounds": 1000}), []
    reach(name).run(job, lines.append, lambda: len(lines) >= 3)
    assert 3 <= len(lines) < 100
    assert soon(lambda: not working_in(tmp_path) and not working_in(Path("store", "jobs")))


@pytest.mark.parametrize("name", REMOTE)
def test_what_the_sink_raises_comes_through_and_ends_the_job(name: str, reach: Any, tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", protocol={"most_rounds": 1000, "least_rounds": 1000})

    def sink(line: dict[str, Any]) -> None:
        if line.get("round") == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reach(name).run(job, sink)
    assert soon(lambda: not working_in(tmp_path) and not working_in(Path("store", "jobs")))


@pytest.mark.parametrize("name", transports.names())
def test_it_measures_memory_or_says_that_it_does_not(name: str, reach: Any, tmp_path: Path) -> None:
    job, lines = make_job(tmp_path / "job", memory_of="short"), []
    made = reach(name)
    if not made.MEMORY:
        with pytest.raises(InputError, match=f"peak memory .* transport {name}; allowed there: local, ssh"):
            made.run(job, lines.append)
        return
    made.run(job, lines.append)
    assert lines[1]["peak_of"] == "short" and lines[1]["peak_bytes"] >= 0
