"""The stage `measure`: subnets timed on devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardware_profiles.profile import folder_of
from hardware_profiles.transports import Waiting
from nas.core.names import subnets_in
from nas.core.progress import StageProgress
from nas.core.run_dir import RunDir
from nas.core.subnet import Subnet
from nas.core.timing.subnets import MeasuredSubnet, measure
from nas.stages.measure.request import MeasureRequest
from search_spaces import InputError
from search_spaces.errors import Command
from search_spaces.files import ARCHITECTURE


@dataclass(frozen=True)
class MeasureResult:
    """The measurements, and instructions for devices without a connection."""

    measured: Sequence[MeasuredSubnet]
    waiting: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"measured": [subnet.to_dict() for subnet in self.measured], "waiting": list(self.waiting)}


def run(request: MeasureRequest, progress: StageProgress) -> MeasureResult:
    """Measure subnets on devices.

    Raises:
        InputError: a subnet or device cannot be measured.
        Stopped: the user asked to stop; what was measured is kept.
    """
    subnets = open_subnets(request.subnets)
    measured: list[MeasuredSubnet] = []
    waiting: list[str] = []
    for device in {folder_of(device).resolve(): device for device in request.device}.values():
        try:
            measured += measure(subnets, device, request.phase, request.budget_s, progress)
        except Waiting as turn:  # not an error: the user has to act
            waiting.append(str(turn))
    return MeasureResult(measured, waiting)


def open_subnets(names: Sequence[str]) -> list[Subnet]:
    """Subnets by name, and all those of runs, each once. Raises InputError."""
    subnets: dict[Path, Subnet] = {}
    for name in names:
        for subnet in _of_run(name) or [Subnet.open(name)]:
            subnets[subnet.path.resolve()] = subnet
    return list(subnets.values())


def _of_run(name: str) -> list[Subnet]:
    """The subnets of a run; none where the name is not a run's."""
    if (Path(name) / ARCHITECTURE).is_file():
        return []
    try:
        folder = RunDir.open(name).path
    except InputError:
        return []
    folders = subnets_in(folder)
    if not folders:
        raise InputError(str(folder), f"has no subnets; run {Command('extract', name)}")
    return [Subnet.open(str(path)) for path in folders]
