"""The stage `profile`: profile a device for a space, check a profile, or fit one on whole models."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hardware_profiles import transports
from hardware_profiles.device import Device, load_profile
from hardware_profiles.latency import LatencyModel
from hardware_profiles.profile import load_device, named_folder, read_stored
from hardware_profiles.provenance import ProfileWarning
from nas.core.evaluation import prepare
from nas.core.names import CONFIG, ROOT
from nas.core.prediction_quality import OFF
from nas.core.progress import StageProgress
from nas.core.run_dir import RunDir, locked
from nas.stages.profile.budget import too_short
from nas.stages.profile.check import ProfileCheck, check
from nas.stages.profile.profiling import PhaseProfile, Profiling
from nas.stages.profile.request import ProfileRequest, phases_of
from nas.stages.profile.whole import WholeModelFit, fit_whole
from search_spaces import InputError, SearchSpace, load_space, shipped_spaces
from search_spaces.errors import Command, Option

TRY_S = 20.0
"""Seconds of preparing workloads, to estimate the minimum of a profile."""
PhaseResult = PhaseProfile | ProfileCheck | WholeModelFit


@dataclass(frozen=True)
class ProfileResult:
    """Result of profiling, checking or fitting, by phase."""

    phases: Sequence[PhaseResult]
    folder: Path
    estimated: bool

    @property
    def good(self) -> bool:
        """False if a check found that predictions are off."""
        return all(result.verdict != OFF for result in self.phases if isinstance(result, ProfileCheck))

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        rows = [phase.to_dict() if isinstance(phase, ProfileCheck) else asdict(phase) for phase in self.phases]
        return {"profile": str(self.folder), "estimated": self.estimated, "phases": rows}


def run(request: ProfileRequest, progress: StageProgress) -> ProfileResult:
    """Profile a device, check a profile, or fit one on a file.

    Raises:
        InputError: the request does not fit the device or the space, or the device cannot be used.
        Stopped: the user asked to stop; what was measured is kept.
        Waiting: the user has to carry a file.
    """
    device = load_device(request.device)
    folder = request.out or named_folder(device.name)
    if request.check and not (folder / "profile.yaml").is_file():
        raise InputError(str(folder), f"has no profile; run {Command('profile', request.device, space='SPACE')} "
                                      "first")
    space_name = request.space or _last_space(folder)
    space = load_profiled_space(space_name)
    phases = phases_of(device, space, request.phase)
    with _folder_for(folder), locked(folder, "profile"):
        profiling = Profiling(device, space, folder, progress, space_name)
        if request.from_ is not None:
            results: Sequence[PhaseResult] = [fit_whole(profiling, request.from_, phases[0])]
        elif request.check:
            results = [check(profiling, phase, request.n, request.budget_s / len(phases)) for phase in phases]
        else:
            results = profiling.run(phases, request.budget_s, request.extend)
    return ProfileResult(results, folder, device.estimated)


@contextmanager
def _folder_for(folder: Path) -> Iterator[None]:
    """A profile's folder; deleted if nothing was measured because the device was refused."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except InputError:
        if folder in missing and not any(map(_is_work, folder.rglob("*"))):
            shutil.rmtree(folder, ignore_errors=True)
            for parent in missing[1:]:
                with suppress(OSError):  # others use it
                    parent.rmdir()
        raise


def _is_work(path: Path) -> bool:
    """Whether a file contains results: not a lock or a file of rounds with only a header."""
    return path.is_file() and path.name != ".lock" and (path.suffix != ".jsonl" or path.read_bytes().count(b"\n") > 1)


def is_profiled(device_name: str, space_name: str) -> bool:
    """Whether a device's own profile prices a space in all its phases, so that nothing is left to measure."""
    device, space = load_profile(device_name), load_profiled_space(space_name)
    if not (named_folder(device.name) / "profile.yaml").is_file():
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProfileWarning)  # shown when it is used
        model = LatencyModel.load(str(named_folder(device.name)))
    known = model.stored.by_space.get(space.name, {})
    try:
        for phase in phases_of(device, space):
            model.predict_many([space.smallest(), space.largest()], phase)
            if phase not in known:
                return False
    except InputError:
        return False
    return model.stored.memory is not None or not device.timing.memory


def why_too_short(device: Device, space: SearchSpace, budget_s: float) -> tuple[float, str]:
    """Seconds that the minimum of a profile takes here, and why a budget is too short for it, or nothing.

    A few workloads are prepared in a folder that is deleted. Nothing is tried on a device that is not this machine.

    Raises:
        InputError: the device cannot be used, or cannot run a unit of the space.
    """
    if device.estimated or not transports.make(device.transport, device.name).HERE:
        return 0.0, ""
    with tempfile.TemporaryDirectory() as folder:
        least_s = Profiling(device, space, Path(folder)).least_s(phases_of(device, space), TRY_S)
    return least_s, too_short(budget_s, least_s, f"{device.name} for {space.name}")


def load_profiled_space(name: str) -> SearchSpace:
    """A space by its name or file, or that of a run, whose vocabulary and classes fit the run's data."""
    named = (Path(name), *(() if name in shipped_spaces() or Path(name).is_file() else (ROOT / name,)))
    folder = next((folder for folder in named if (folder / CONFIG).is_file()), None)
    return load_space(name) if folder is None else prepare(RunDir.open(str(folder.absolute()))).space


def _last_space(folder: Path) -> str:
    """The space that a profile was made for last. Raises InputError if there is none."""
    known = read_stored(folder).spaces if (folder / "profile.yaml").is_file() else ()
    if not known:
        raise InputError(Option("space"), f"is missing: the search space to profile; {Command('spaces')} lists those "
                                          "shipped")
    return known[-1]
