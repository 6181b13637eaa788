"""The requests of the stage `profile` and of latency prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from hardware_profiles.device import PHASES, Device
from search_spaces import InputError, SearchSpace
from search_spaces.errors import Option

LEAST_CHECKED = 4
"""Minimum number of whole models of a check."""


@dataclass(frozen=True)
class ProfileRequest:
    """Measure the latency table of a device, check one, or fit one on whole models measured elsewhere.

    Args:
        device: a shipped device, a YAML file, or a profile that was made here.
        space: the search space to profile: a name, a YAML file, or a run by its name or folder, whose vocabulary
            may differ. By default the one that was profiled last.
        budget_s: seconds for everything, compiling included.
        out: the profile's folder; by default that of the device's name.
        phase: prefill, decode or both; by default what the device file says.
        check: measure whole models and compare with what the profile predicts, instead of profiling.
        n: whole models that a check measures.
        from_: a CSV file of whole models measured elsewhere to fit, instead of profiling.
        extend: extend a budget that is too short for the minimum of a profile, instead of refusing it.
    """

    device: str
    space: str | None = None
    budget_s: float = 180.0
    out: Path | None = None
    phase: tuple[str, ...] = ()
    check: bool = False
    n: int = 50
    from_: Path | None = None
    extend: bool = False

    def __post_init__(self) -> None:
        for phase in self.phase:
            check_phase(phase)
        if not 0 < self.budget_s < math.inf:
            raise InputError(Option("budget"), f"{self.budget_s} is not allowed; allowed: more than 0 seconds")
        if self.n < LEAST_CHECKED:
            raise InputError(Option("n"), f"{self.n} is not allowed; allowed: {LEAST_CHECKED} or more")
        if self.check and self.from_ is not None:
            raise InputError(Option("from_"), f"cannot be combined with {Option('check')}; fit first, then check")


@dataclass(frozen=True)
class LatencyRequest:
    """Predict the latency of an architecture on a profiled device.

    Args:
        device: a profiled device, or a profile's folder.
        arch: an architecture, or a space: its largest architecture, or with `sample` the one drawn with that seed.
    """

    device: str
    arch: str
    phase: str = "prefill"
    sample: int | None = None

    def __post_init__(self) -> None:
        check_phase(self.phase)


def check_phase(phase: str) -> None:
    """Raises InputError if there is no such phase."""
    if phase not in PHASES:
        raise InputError(Option("phase"), f"{phase!r} is not allowed; allowed: {', '.join(PHASES)}")


def phases_of(device: Device, space: SearchSpace, phases: tuple[str, ...] = ()) -> list[str]:
    """The phases of a device that a space's models have; those given, or the device's own. Raises InputError."""
    if "decode" in phases and space.family == "encoder":
        raise InputError(Option("phase"), f"decode: the space {space.name} contains encoders, which do not decode")
    wanted = phases or tuple(phase for phase in device.phases if phase == "prefill" or space.family != "encoder")
    if not wanted:
        raise InputError(device.name, f"its file lists only decode, but the space {space.name} contains encoders")
    return list(dict.fromkeys(wanted))
