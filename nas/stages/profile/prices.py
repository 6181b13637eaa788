"""Timings -> prices of units: measured, interpolated between measured ones, or estimated from a specification."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hardware_profiles import regression
from hardware_profiles.device import PRECISIONS, Device
from hardware_profiles.protocol import Timing
from hardware_profiles.table import PriceRow, UnitWork
from nas.core.pareto import Floats
from nas.core.timing.workloads import Workload
from search_spaces import InputError
from search_spaces.errors import Option
from search_spaces.units import Unit

ESTIMATE_SPREAD = 0.5
"""Assumed relative error of a roofline."""


def empty_for(unit: Unit, phase: str) -> Workload:
    """The empty workload: the time of a call without a unit."""
    return Workload(phase, 0 if unit.role == "embedding" else int(dict(unit.facts)["width"]))


def measured_rows(timings: Mapping[str, Timing], units: Iterable[Unit], works: Mapping[Unit, UnitWork], phase: str,
                  copies: int) -> list[PriceRow]:
    """The prices of units whose stacks were timed: minus an empty call, divided by the number of copies.

    A unit too cheap to distinguish from an empty call is omitted and interpolated.
    """
    rows = []
    for unit in units:
        stack, empty = timings[Workload(phase, unit, copies).name], timings[empty_for(unit, phase).name]
        ms = (stack.ms - empty.ms) / copies
        below = math.hypot(stack.ms - stack.low, empty.high - empty.ms) / copies
        above = math.hypot(stack.high - stack.ms, empty.ms - empty.low) / copies
        if ms > 0:
            rows.append(PriceRow(phase, unit, ms, max(ms - below, 0.0), ms + above, "measured", works[unit]))
    return rows


def interpolated_rows(known: Sequence[PriceRow], works: Mapping[Unit, UnitWork], phase: str) -> list[PriceRow]:
    """The prices of the units without one, from those that were measured. Raises InputError if those are too few."""
    wanted = [unit for unit in works if unit not in {row.unit for row in known}]
    if not wanted:
        return []
    names, table = unit_features({row.unit: row.work for row in known} | {unit: works[unit] for unit in wanted})
    floor = 1e-6
    try:
        fitted = regression.fit(names, table[: len(known)], np.array([max(row.ms, floor) for row in known]))
    except InputError as error:
        raise InputError(f"interpolating {phase} latencies", f"{error}; give a larger {Option('budget')}") from None
    ms, std = fitted.predict(table[len(known) :])
    return [PriceRow(phase, unit, float(value), max(float(value - 1.96 * spread), 0.0), float(value + 1.96 * spread),
                "interpolated", works[unit]) for unit, value, spread in zip(wanted, ms, std)]


def unit_features(works: Mapping[Unit, UnitWork]) -> tuple[list[str], Floats]:
    """Units as rows of numbers: their work, their dims, and which kind they are."""
    rows = []
    for unit, work in works.items():
        row = {"macs": work.macs, "weight_bytes": work.weight_bytes, "moved_bytes": work.moved_bytes,
               "kernels": work.kernels, f"is {unit.role} {unit.block.kind}": 1.0}
        for name, value in (*unit.facts, *unit.block.dims):
            if isinstance(value, (bool, str)):
                row[f"{name} is {value}"] = 1.0
            else:
                row[name] = float(value)
        rows.append(row)
    names = sorted({name for row in rows for name in row})
    table = np.array([[row.get(name, 0.0) for name in names] for row in rows])
    varies = np.ptp(table, axis=0) > 0
    return [name for name, keep in zip(names, varies) if keep], table[:, varies]


def estimated_rows(device: Device, works: Mapping[Unit, UnitWork], phase: str) -> list[PriceRow]:
    """The roofline: the maximum of compute and memory time, plus kernel launches."""
    known = device.specification
    assert known is not None
    size = PRECISIONS[device.precision] / PRECISIONS["fp32"]
    rows = []
    for unit, work in works.items():
        compute = work.macs / (known.gmacs_per_s * known.efficiency * 1e6)
        move = work.moved_bytes * size / (known.gbytes_per_s * known.efficiency * 1e6)
        ms = max(compute, move) + work.kernels * known.launch_us / 1e3
        low, high = ms * (1 - ESTIMATE_SPREAD), ms * (1 + ESTIMATE_SPREAD)
        rows.append(PriceRow(phase, unit, ms, low, high, "estimated", work))
    return rows
