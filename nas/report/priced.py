"""What the profiles of a run's devices tell: where the time goes, and how true predictions are."""

from __future__ import annotations

import csv
import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hardware_profiles import LatencyModel
from hardware_profiles.provenance import ProfileWarning
from hardware_profiles.stored import folder_of
from nas.report.shown import Checked, Devices, Gap, Part, Picked
from nas.search.measures import Measure
from nas.search.pricing import phases
from search_spaces import Architecture, InputError

NUMBERS = ("mape", "within")
"""What a check says of each way of predicting, beside taus."""


def read_devices(names: Sequence[str], archs: Mapping[str, Architecture], picked: Sequence[Picked]) -> Devices:
    """What is known of these devices; one whose profile is not here tells nothing.

    Raises:
        InputError: a file of a profile is damaged.
    """
    found = Devices(gaps=list(_measured(picked)))
    parts: dict[str, Mapping[str, list[Part]]] = {}
    for name in names:
        folder = folder_of(name)
        if not (folder / "profile.yaml").is_file():
            found.notes.append(f"The profile of {name} is not here any more, so where its time goes is not known.")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ProfileWarning)
            model = LatencyModel.load(name)
        for phase in phases(model):
            measure = Measure("latency", name, phase).name
            parts[measure], unknown = _breakdowns(model, archs, phase)
            if unknown:
                found.notes.append(f"Where the time of {len(unknown)} of {len(archs)} architectures goes on {name} "
                                   f"({phase}) is not known: {unknown[0]}.")
            found.checks.extend(_checks(folder, name, phase))
            found.gaps.extend(_check_gaps(folder, measure, phase))
    return Devices(parts, found.gaps, found.checks, found.notes)


def _breakdowns(model: LatencyModel, archs: Mapping[str, Architecture],
                phase: str) -> tuple[dict[str, list[Part]], list[str]]:
    """The times of each architecture, and why some have none: their units, or all, were not priced by themselves."""
    found, unknown = {}, []
    for key, arch in archs.items():
        try:
            found[key] = breakdown(model, arch, phase)
        except InputError as error:
            unknown.append(error.faults[0].says)
    return found, unknown


def breakdown(model: LatencyModel, arch: Architecture, phase: str) -> list[Part]:
    """The time of every step, and what no step takes. Raises InputError where a profile does not know."""
    steps = model.breakdown(arch, phase)
    stacked = len(arch.stacks) > 1
    found = []
    for part in steps:
        step = part.step
        stack = f"{step.stack} " if stacked and step.unit.role != "head" else ""
        place = f"{stack}{step.layer if step.layer >= 0 else step.unit.role}"
        found.append(Part(place, step.unit.role, step.unit.block.kind, part.ms))
    return [*found, Part("overhead", "overhead", "", model.calibration(phase, arch).overhead_ms)]


def _measured(picked: Sequence[Picked]) -> Iterator[Gap]:
    for each in picked:
        for name, (predicted, measured) in each.measured.items():
            if predicted is not None:
                yield Gap(name, each.name, each.arch.key, predicted, measured)


def _checks(folder: Path, device: str, phase: str) -> Iterator[Checked]:
    path = folder / f"check-{phase}.json"
    if not path.is_file():
        return
    remedy = f"delete it and run nas profile {device} --check"
    try:
        data: dict[str, Any] = json.loads(path.read_bytes())
        for way in ("predicted", "naive", "macs"):
            for number in NUMBERS:
                float(data[way][number])
        float(data["noise_floor"]), int(data["n"])
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(str(path), f"is damaged; {remedy}") from None
    yield Checked(device, phase, data)


def _check_gaps(folder: Path, measure: str, phase: str) -> Iterator[Gap]:
    path = folder / f"check-{phase}.csv"
    if not path.is_file():
        return
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [(row["key"], float(row["predicted_ms"]), float(row["measured_ms"])) for row in csv.DictReader(file)]
        if not all(math.isfinite(value) and value > 0 for _, *values in rows for value in values):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        raise InputError(str(path), f"is damaged; delete it and check the profile {folder.name} again") from None
    yield from (Gap(measure, "", key, predicted, measured) for key, predicted, measured in rows)
