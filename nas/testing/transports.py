"""What every transport promises."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import ValidationError

from hardware_profiles import runtimes, transports
from hardware_profiles.protocol import Protocol, summarise
from hardware_profiles.transports import Base, Job, Model, TransportSettings
from nas.testing import standin_runtime
from search_spaces import InputError

SECONDS = {"reference": 0.001, "short": 0.002, "long": 0.004}
INPUTS = ({"dtype": "int64", "shape": [1, 4], "high": 10}, {"dtype": "float32", "shape": [2, 3]})
ENDLESS = {"most_rounds": 1000, "least_rounds": 1000}
Lines = list[dict[str, Any]]


def make_job(folder: Path, seconds: dict[str, Any] = SECONDS, **changes: Any) -> Job:
    """A job of models that wait; its reference is the first."""
    (folder / "models").mkdir(parents=True, exist_ok=True)
    models = []
    for i, (name, value) in enumerate(seconds.items()):
        (folder / "models" / f"m{i}.txt").write_text(str(value))
        models.append(Model(name, f"models/m{i}.txt", INPUTS))
    protocol = Protocol(least_rounds=3, most_rounds=3)._replace(**changes.pop("protocol", {}))
    return Job(folder, "standin", {"threads": 1, "precision": "fp32"}, models, next(iter(seconds)), protocol, **changes)


def working_in(folder: Path) -> list[int]:
    """Processes whose working directory is in a folder."""
    folders = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and str(folder) in os.readlink(entry / "cwd"):
                folders.append(int(entry.name))
    return folders


def soon(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether a condition holds within a few seconds."""
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    return condition()


class TransportContract:
    """Set `name` to that of your transport and `settings` to an example of what a device's file says.

    Override the fixture `transport` where a device has to be set up first.
    """

    name: str
    settings: ClassVar[dict[str, Any]] = {}
    interruptible: ClassVar[bool] = True
    """Whether a job runs while `run` does, and can be stopped."""

    @pytest.fixture(autouse=True)
    def standin(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Lets a job name the stand-in as its runtime."""
        real = runtimes.get
        monkeypatch.setattr(runtimes, "get", lambda name: standin_runtime if name == "standin" else real(name))

    @pytest.fixture
    def transport(self) -> Base:
        """A transport to a device that is there."""
        return self.make(self.settings)

    @property
    def module(self) -> Any:
        """The module under test."""
        return transports.get(self.name)

    def make(self, settings: dict[str, Any]) -> Base:
        """The transport with settings."""
        transport: Base = self.module.TRANSPORT(self.module.SETTINGS(**settings), "a device")
        return transport

    def run(self, transport: Base, job: Job, sink: Callable[[dict[str, Any]], None]) -> None:
        """Run a job to its end."""
        transport.run(job, sink)

    def idle(self, folder: Path) -> bool:
        """Whether no process works on a job any more."""
        return not working_in(folder)

    def test_it_says_what_it_is_and_refuses_unknown_settings(self) -> None:
        module = self.module
        assert module.__doc__ and module.HELP
        assert issubclass(module.SETTINGS, TransportSettings) and issubclass(module.TRANSPORT, Base)
        settings = module.SETTINGS(**self.settings)
        assert module.SETTINGS(**settings.model_dump()) == settings
        with pytest.raises(ValidationError):
            module.SETTINGS(**self.settings, unknown_setting=1)

    def test_it_says_what_this_machine_lacks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        why = self.module.missing(self.module.SETTINGS(**self.settings))
        assert bool(why) == bool(self.module.TOOL)
        if why:
            with pytest.raises(InputError, match=f"^a device: {why}"):
                self.make(self.settings).check()

    def test_the_same_job_gives_rounds_of_the_same_workloads(self, transport: Base, tmp_path: Path) -> None:
        job, lines = make_job(tmp_path / "job"), Lines()
        transport.check("standin")
        self.run(transport, job, lines.append)
        assert lines[0]["job"] == job.key and lines[0]["versions"] and lines[0]["machine"]["system"]
        rounds = [line for line in lines if "seconds" in line]
        assert [line["round"] for line in rounds] == [0, 1, 2]
        for line in rounds:
            names = [name for name, _ in line["seconds"]]
            assert set(names) == set(SECONDS) and names[0] == names[-1] == "reference"
        timings = summarise(rounds, job.reference)
        assert timings["reference"].ms < timings["short"].ms < timings["long"].ms
        assert timings["short"].ms == pytest.approx(2.0, rel=0.2)

    def test_it_resumes_after_earlier_rounds(self, transport: Base, tmp_path: Path) -> None:
        job, lines = make_job(tmp_path / "job"), Lines()
        before = [{"round": i, "seconds": [[model.name, 0.01 * (i + 1)] for model in job.models], "spent_s": 1.0}
                  for i in range(2)]
        self.run(transport, dataclasses.replace(job, before=before), lines.append)
        assert [line["round"] for line in lines if "seconds" in line] == [2]

    def test_it_stops_and_leaves_nothing_running(self, transport: Base, tmp_path: Path) -> None:
        if not self.interruptible:
            pytest.skip("only for transports that run jobs themselves")
        lines = Lines()
        transport.run(make_job(tmp_path / "job", protocol=ENDLESS), lines.append, lambda: len(lines) >= 3)
        assert 3 <= len(lines) < 100
        assert soon(lambda: self.idle(tmp_path))

    def test_what_the_sink_raises_comes_through_and_ends_the_job(self, transport: Base, tmp_path: Path) -> None:
        if not self.interruptible:
            pytest.skip("only for transports that run jobs themselves")

        def sink(line: dict[str, Any]) -> None:
            if line.get("round") == 1:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            transport.run(make_job(tmp_path / "job", protocol=ENDLESS), sink)
        assert soon(lambda: self.idle(tmp_path))

    def test_it_measures_memory_or_says_that_it_does_not(self, transport: Base, tmp_path: Path) -> None:
        job, lines = make_job(tmp_path / "job", memory_of="short"), Lines()
        if not transport.MEMORY:
            with pytest.raises(InputError, match="peak memory .* transports that can: "):
                transport.run(job, lines.append)
            return
        transport.run(job, lines.append)
        assert lines[1]["peak_of"] == "short" and lines[1]["peak_bytes"] >= 0
