"""Data from the profiles of a run's devices: latency breakdowns, and accuracy of predictions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hardware_profiles import LatencyModel
from hardware_profiles.profile import folder_of
from hardware_profiles.provenance import ProfileWarning
from nas.core.describing import drawn_parts, style_of
from nas.core.measures.latency import LATENCY, latency_on
from nas.core.prediction_quality import Quality, verdict
from nas.stages.report.shown import Devices, Gap, Picked, TimedPart
from search_spaces import Architecture, InputError
from search_spaces.errors import Command
from search_spaces.files.reading import checked, number, read_csv, read_table


class _Check(BaseModel):
    """The fields that are read from `check-*.json`."""

    n: int
    noise_floor: float
    predicted: Quality
    naive: Quality
    macs: Quality


def read_devices(names: Sequence[str], archs: Mapping[str, Architecture], picked: Sequence[Picked]) -> Devices:
    """Data of these devices; nothing for a device without a profile.

    Raises:
        InputError: a file of a profile is damaged.
    """
    devices = Devices(gaps=list(_measured(picked)))
    for name in names:
        folder = folder_of(name)
        if not (folder / "profile.yaml").is_file():
            devices.notes.append(f"The profile of {name} no longer exists, so the latency breakdown is unknown.")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ProfileWarning)
            model = LatencyModel.load(name)
        for phase in LATENCY.known_phases(model):
            measure = latency_on(name, phase).name
            devices.parts[measure], unknown = _breakdowns(model, archs, phase)
            if unknown:
                devices.notes.append(f"The latency breakdown of {len(unknown)} of {len(archs)} architectures on {name} "
                                     f"({phase}) is unknown: {unknown[0]}.")
            devices.checks.extend(_checks(folder, name, phase))
            devices.gaps.extend(_check_gaps(folder, measure, phase))
    return devices


def _breakdowns(model: LatencyModel, archs: Mapping[str, Architecture],
                phase: str) -> tuple[dict[str, list[TimedPart]], list[str]]:
    """The times of each architecture, and why some have none: units without prices."""
    breakdowns, unknown = {}, []
    for key, arch in archs.items():
        try:
            breakdowns[key] = breakdown(model, arch, phase)
        except InputError as error:
            unknown.append(error.faults[0].message)
    return breakdowns, unknown


def breakdown(model: LatencyModel, arch: Architecture, phase: str) -> list[TimedPart]:
    """The time of every step, and the overhead. Raises InputError if a profile has no unit prices."""
    steps = model.breakdown(arch, phase)
    stacked = len(arch.stacks) > 1
    parts = []
    for part in steps:
        step = part.step
        stack = f"{step.stack} " if stacked and step.unit.role != "head" else ""
        place = f"{stack}{step.layer if step.layer >= 0 else step.unit.role}"
        style = style_of(step.unit.role, drawn_parts(step.unit.block, arch.width)[0])
        parts.append(TimedPart(place, step.unit.role, step.unit.block.kind, part.ms, part.source, style))
    return [*parts, TimedPart("overhead", "overhead", "", model.calibration(phase, arch).overhead_ms)]


def _measured(picked: Sequence[Picked]) -> Iterator[Gap]:
    for subnet in picked:
        for name, (predicted, measured) in subnet.measured.items():
            if predicted is not None:
                yield Gap(name, subnet.name, subnet.arch.key, predicted, measured, subnet.unmeasured.get(name, 0.0))


def _checks(folder: Path, device: str, phase: str) -> Iterator[dict[str, Any]]:
    path = folder / f"check-{phase}.json"
    if not path.is_file():
        return
    remedy = f"delete it and run {Command('profile', device, check=True)}"
    data = read_table(path, remedy)
    check = checked(_Check, data, str(path), remedy)
    data["verdict"] = verdict(phase, check.n, check.predicted, check.noise_floor)
    yield {"device": device, "phase": phase, **data}


def _check_gaps(folder: Path, measure: str, phase: str) -> Iterator[Gap]:
    path = folder / f"check-{phase}.csv"
    if not path.is_file():
        return
    remedy = f"delete it and check the profile {folder.name} again"
    for line, row in read_csv(path, ("key", "predicted_ms", "measured_ms"), remedy):
        predicted, measured = (number(row[name], f"{path}, line {line}", remedy) for name in
                               ("predicted_ms", "measured_ms"))
        if not all(math.isfinite(value) and value > 0 for value in (predicted, measured)):
            message = f"{predicted:g} ms predicted and {measured:g} ms measured: a latency is a finite number above 0"
            raise InputError(f"{path}, line {line}", message, remedy)
        yield Gap(measure, "", row["key"], predicted, measured)
