"""Selects the units to time, and the whole models for calibration and checks."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from hardware_profiles.steps import phase_steps
from hardware_profiles.table import UnitWork
from nas.core.pareto import Floats
from search_spaces import Architecture, InputError, SearchSpace
from search_spaces.space.inventory import inventory
from search_spaces.units import Unit

TRIES = 30
"""Sampling attempts per whole model: small spaces repeat samples."""


def units_of(space: SearchSpace, phase: str) -> list[Unit]:
    """Every unit that can occur in a phase, in a fixed order."""
    distinct: dict[Unit, None] = {}
    for path, units in inventory(space).items():
        if phase == "prefill" or path.split(".")[0] != "encoder":
            distinct |= dict.fromkeys(units)
    return list(distinct)


def n_ends(works: Mapping[Unit, UnitWork], first: Collection[Unit] = ()) -> int:
    """How many units at the beginning of `spread_order` have to be timed, so that nothing is extrapolated."""
    return len({*first, *_ends(list(works), works)})


def spread_order(works: Mapping[Unit, UnitWork], first: Collection[Unit] = ()) -> list[Unit]:
    """All units, the most informative first: each as far as possible from those before it.

    The order starts with `first` and with the cheapest and the most expensive unit of every kind.
    """
    units = list(works)
    if not units:
        return []
    points = _points(works)
    taken = list(dict.fromkeys((*first, *_ends(units, works))))
    distance = np.min([_distances(points, units.index(unit)) for unit in taken], axis=0)
    distance[[units.index(unit) for unit in taken]] = -np.inf
    while len(taken) < len(units):
        farthest = int(np.argmax(distance))
        taken.append(units[farthest])
        distance = np.minimum(distance, _distances(points, farthest))
        distance[farthest] = -np.inf
    return taken


def _ends(units: Sequence[Unit], works: Mapping[Unit, UnitWork]) -> list[Unit]:
    kinds = dict.fromkeys((unit.role, unit.block.kind) for unit in units)
    chosen: dict[Unit, None] = {}
    for kind in kinds:
        alike = [unit for unit in units if (unit.role, unit.block.kind) == kind]
        alike.sort(key=lambda unit: (works[unit].macs, works[unit].moved_bytes))
        chosen |= {alike[0]: None, alike[-1]: None}
    return list(chosen)


def _points(works: Mapping[Unit, UnitWork]) -> Floats:
    """Units as points: similar kind, dims and work are close."""
    rows: list[dict[str, float]] = []
    for unit, work in works.items():
        row = {"macs": np.log2(1 + work.macs) / 2, "moved": np.log2(1 + work.moved_bytes) / 2,
               f"kind {unit.role} {unit.block.kind}": 4.0}
        for name, value in (*unit.facts, *unit.block.dims):
            if isinstance(value, (bool, str)):
                row[f"{name} {value}"] = 1.0
            elif name not in ("vocab_size", "context"):
                row[name] = float(np.log2(1 + value)) / 2
        rows.append(row)
    names = sorted({name for row in rows for name in row})
    return np.array([[row.get(name, 0.0) for name in names] for row in rows])


def _distances(points: Floats, i: int) -> Floats:
    return np.asarray(np.linalg.norm(points - points[i], axis=1))


def calibration_models(space: SearchSpace, n: int) -> list[Architecture]:
    """Calibration models: the smallest, the largest and samples."""
    ends = list(dict.fromkeys((space.smallest(), space.largest())))[:n]
    return ends + draw_models(space, n - len(ends), "calibration", avoid={arch.key for arch in ends})


def draw_models(space: SearchSpace, n: int, purpose: str, avoid: set[str]) -> list[Architecture]:
    """n distinct samples, without excluded ones. Raises InputError if the space has too few."""
    rng = random.Random(f"{space.name}/{purpose}")  # noqa: S311 - no secret
    archs: dict[str, Architecture] = {}
    for _ in range(TRIES * n):
        if len(archs) == n:
            break
        arch = space.sample(rng)
        if arch.key not in avoid:
            archs[arch.key] = arch
    if len(archs) < n:
        raise InputError(space.name, f"has too few architectures for {n} more whole models; found {len(archs)}")
    return list(archs.values())


def model_macs(arch: Architecture, phase: str, works: Mapping[Unit, UnitWork]) -> float:
    """Multiply-adds of a whole model, from those of its units."""
    return sum(works[step.unit].macs for step in phase_steps(arch, phase))
