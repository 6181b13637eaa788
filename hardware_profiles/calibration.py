"""Calibration: how unit prices add up to whole models, fitted on a few measured models."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from hardware_profiles.latency import LatencyModel
from hardware_profiles.profile import Calibration, Stored, group
from hardware_profiles.steps import steps_with_reuse
from hardware_profiles.table import PriceTable
from search_spaces.architecture import Architecture
from search_spaces.errors import Command, InputError
from search_spaces.files.reading import number, read_csv

Floats = NDArray[np.float64]
NOISE, TRUST = 0.02, 0.1
"""Relative noise of a measured model; prior standard deviation of a group's scale around the common scale."""

GREATEST_MS = 1e9
"""Eleven days; the fit fails on larger numbers."""
REMEDY = f"delete the file and run {Command('profile')} again"
_COLUMNS = ("phase", "space", "ms", "architecture")


@dataclass(frozen=True)
class MeasuredModel:
    """A whole model of a space and its measured latency."""

    phase: str
    space: str
    arch: Architecture
    ms: float


def calibrate(model: LatencyModel, archs: Sequence[Architecture], ms: Floats, phase: str) -> Calibration:
    """Fit how unit prices add up to these measured models.

    A least-squares fit of relative errors, regularised towards a common scale, so that a group that hardly varies among
    the models keeps it; `error` is the leave-one-out error.
    """
    groups = sorted({group(step.unit, reused) for arch in archs for step, reused in steps_with_reuse(arch, phase)})
    sums = np.zeros((len(archs), len(groups) + 1))
    for i, arch in enumerate(archs):
        sums[i, 0] = 1.0
        for step, reused in steps_with_reuse(arch, phase):
            sums[i, 1 + groups.index(group(step.unit, reused))] += model.row(step.unit, phase).ms
    fit = _fit(sums, ms)
    left_out = [_fit(np.delete(sums, i, axis=0), np.delete(ms, i)) @ sums[i] / ms[i] - 1
                for i in range(len(archs) if len(archs) > 1 else 0)]  # no degrees of freedom with a single model
    error = float(np.sqrt(np.mean(np.square(left_out)))) if left_out else 0.0
    scales = {name: float(value) for name, value in zip(groups, fit[1:])}
    return Calibration(overhead_ms=float(fit[0]), scales=scales, common=_common(sums, ms), error=error, n=len(archs))


def calibrated(stored: Stored, table: PriceTable, measured: Sequence[MeasuredModel], phase: str) -> Stored:
    """A profile calibrated on these models: one calibration per space, independent of the others, and one for all
    spaces.

    Every space is fitted again, because prices may have changed since its models were measured.
    """
    model = LatencyModel(stored, table)
    mine = [entry for entry in measured if entry.phase == phase]
    by_space = dict(stored.by_space)
    for space in dict.fromkeys(entry.space for entry in mine):
        calibration = _calibrate(model, [entry for entry in mine if entry.space == space])
        by_space[space] = {**by_space.get(space, {}), phase: calibration}
    return stored.model_copy(update={"by_space": by_space, "calibration": {**stored.calibration,
                                                                           phase: _calibrate(model, mine)}})


def _calibrate(model: LatencyModel, measured: Sequence[MeasuredModel]) -> Calibration:
    return calibrate(model, [entry.arch for entry in measured], np.array([entry.ms for entry in measured]),
                     measured[0].phase)


def to_csv(measured: Sequence[MeasuredModel]) -> str:
    """One line per model."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows([entry.phase, entry.space, f"{entry.ms:.6g}", entry.arch.to_json()] for entry in measured)
    return out.getvalue()


def from_csv(path: Path) -> list[MeasuredModel]:
    """The models of a file; none if there is no file. Raises InputError with the line of a fault."""
    if not path.is_file():
        return []
    return [_measured(row, f"{path}, line {line}") for line, row in read_csv(path, _COLUMNS, REMEDY)]


def _measured(row: dict[str, str], where: str) -> MeasuredModel:
    arch, ms = Architecture.from_json(row["architecture"], where), number(row["ms"], where, REMEDY)
    if not 0 < ms < GREATEST_MS:
        raise InputError(where, f"{ms:g} ms is not a valid latency; allowed: above 0, below {GREATEST_MS:g}", REMEDY)
    return MeasuredModel(row["phase"], row["space"], arch, ms)


def _fit(sums: Floats, ms: Floats) -> Floats:
    """(overhead, scales): non-negative, relative errors weighed against the distance from a common scale."""
    common = _common(sums, ms)
    least = float(np.median(ms))
    rows = [sums / ms[:, None] / NOISE]
    goals = [np.full(len(ms), 1 / NOISE)]
    prior = np.diag([1 / (0.05 * least), *np.full(sums.shape[1] - 1, 1 / (TRUST * common))])
    rows.append(prior)
    goals.append(np.array([0.0, *np.full(sums.shape[1] - 1, 1 / TRUST)]))
    return np.asarray(lsq_linear(np.vstack(rows), np.concatenate(goals), bounds=(0, np.inf)).x)


def _common(sums: Floats, ms: Floats) -> float:
    """The single scale that fits all units best."""
    return float(np.median(ms / sums[:, 1:].sum(axis=1)))
