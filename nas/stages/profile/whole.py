"""A profile from latencies of whole models that were measured elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardware_profiles import regression
from hardware_profiles.latency import LatencyModel
from hardware_profiles.steps import phase_steps
from hardware_profiles.table import PriceRow, PriceTable
from nas.stages.profile.choice import units_of
from nas.stages.profile.profiling import Profiling
from nas.stages.profile.work import unit_works
from search_spaces import Architecture, InputError, load_architecture
from search_spaces.errors import Option, cut, shown
from search_spaces.files.reading import csv_lines, number, read_csv, read_text

TIMES = {"ms": 1.0, "latency_ms": 1.0, "us": 1e-3, "latency_us": 1e-3, "s": 1e3, "latency_s": 1e3}
"""Columns of the latency, and their factors to milliseconds."""


@dataclass(frozen=True)
class WholeModelFit:
    """Result of a fit: number of models, and the leave-one-out relative error."""

    phase: str
    n: int
    error: float


def fit_whole(profiling: Profiling, path: Path, phase: str) -> WholeModelFit:
    """Fit a phase of a profile on the rows of a file and write it.

    Raises:
        InputError: the file or an architecture in it is wrong, or its latencies are implausible.
    """
    if any(profiling.table.is_measured(*key) for key in profiling.table if key[0] == phase):
        raise InputError(str(profiling.out), "contains measured units that a fit would replace; give another folder "
                                             "with "
                                             f"{Option('out')}")
    archs, ms = read_measurements(path)
    units = dict.fromkeys([*units_of(profiling.space, phase),
                           *(step.unit for arch in archs for step in phase_steps(arch, phase))])
    works = unit_works(units, phase, profiling.conditions)
    rows = [PriceRow(phase, unit, 0.0, 0.0, 0.0, "unpriced", work) for unit, work in works.items()]
    table = PriceTable([*(row for row in profiling.table.values() if row.phase != phase), *rows])
    model = LatencyModel(profiling.stored, table, profiling.device.name)
    try:
        fitted = regression.fit(model.feature_names(), model.features(archs, phase), np.array(ms))
    except InputError as error:
        raise InputError(str(path), error.faults) from None
    profiling.fitted(phase, table, fitted.to_dict(), archs)
    return WholeModelFit(phase, len(archs), float(fitted.error))


def read_measurements(path: Path) -> tuple[list[Architecture], list[float]]:
    """Architectures and milliseconds of a CSV file. Raises InputError with the line."""
    lines = read_csv(path, ())
    columns = next((cells for _, cells in csv_lines(read_text(path), str(path))), [])
    time = next((name for name in TIMES if name in columns), None)
    named = next((name for name in ("architecture", "key") if name in columns), None)
    if time is None or named is None:
        header = cut(", ".join(columns), 200) or "nothing"
        raise InputError(str(path), f"needs a column {' or '.join(TIMES)}, and architecture or key; found {header}")
    known = dict(_known(path.parent)) if named == "key" else {}
    archs, ms = [], []
    for place, line in lines:
        where = f"{path}, line {place}"
        archs.append(_architecture(line, named, known, where))
        ms.append(number(line[time], f"{where}: {time}") * TIMES[time])
    return archs, ms


def _architecture(line: dict[str, Any], named: str, known: dict[str, Architecture], where: str) -> Architecture:
    text = (line[named] or "").strip()
    if named == "architecture":
        return Architecture.from_json(text, where)
    matches = [key for key in known if key.startswith(text)] if text else []
    if len(matches) != 1:
        message = "matches several architectures" if matches else "is not a known architecture"
        raise InputError(where, f"the key {shown(text)} {message}; put its JSON file next to the CSV, or write "
                                "the JSON into a column architecture")
    return known[matches[0]]


def _known(folder: Path) -> Iterator[tuple[str, Architecture]]:
    """Architectures that keys may refer to: JSON files next to the CSV, and those of runs."""
    paths: Sequence[Path] = [*sorted(folder.glob("*.json")), *sorted(Path("runs").glob("**/architecture.json"))]
    for path in paths:
        try:
            arch = load_architecture(path)
        except InputError:
            continue  # another file that is not an architecture
        yield arch.key, arch
