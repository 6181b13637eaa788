"""Pareto fronts of a search: the architectures on them, and the file `pareto.json`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optuna.trial import FrozenTrial
from pydantic import BaseModel

from nas.core.marks import warn_unmeasured
from nas.core.measures import Measure, devices_of
from nas.core.pareto import as_costs, pareto
from nas.core.run_dir import RunDir, write_json
from nas.core.trials import UNMEASURED, hypervolumes, is_feasible, saved_by_races
from search_spaces import Architecture, InputError, SearchSpace
from search_spaces.errors import Command
from search_spaces.files.reading import checked, read_json

SCHEMA_VERSION = 1


class _EntryFile(BaseModel):
    """The fields of an architecture in `pareto.json`."""

    architecture: dict[str, Any]
    metrics: dict[str, float]
    costs: dict[str, float]
    unmeasured_share: dict[str, float] = {}


class _FrontFile(BaseModel):
    """The fields that are read from `pareto.json`."""

    architectures: tuple[_EntryFile, ...]


@dataclass(frozen=True)
class FrontEntry:
    """An evaluated architecture: how good it is, and what it costs.

    Args:
        unmeasured: by the name of a cost, the share that is based on interpolated or estimated prices.
    """

    arch: Architecture
    metrics: dict[str, float]
    costs: dict[str, float]
    unmeasured: dict[str, float] = field(default_factory=dict)

    def value(self, measure: Measure) -> float:
        """One measure of it."""
        return (self.metrics if measure.is_quality else self.costs)[measure.name]

    def show(self, measure: Measure) -> str:
        """One measure as text, marked if partly unmeasured."""
        return measure.show(self.value(measure), self.unmeasured.get(measure.name, 0.0))

    def to_dict(self) -> dict[str, Any]:
        """The entry for JSON."""
        return {"key": self.arch.key, "metrics": self.metrics, "costs": self.costs, UNMEASURED: self.unmeasured,
                "architecture": self.arch.to_dict()}


@dataclass(frozen=True)
class ParetoFronts:
    """The fronts of a search: one for each device, or one of all objectives if there are no devices.

    Args:
        entries: everything that may be on a front.
        device: the only device whose front is meant.
    """

    run: RunDir
    objectives: tuple[Measure, ...]
    entries: list[FrontEntry]
    device: str | None = None

    def by_device(self) -> dict[str | None, list[FrontEntry]]:
        """The front of each device; None is the front of all objectives."""
        devices: list[str | None] = [self.device] if self.device else [*devices_of(self.objectives)] or [None]
        return {device: front(self.entries, self.objectives, device) for device in devices}

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON output."""
        fronts = {device or "all": [entry.to_dict() for entry in entries]
                  for device, entries in self.by_device().items()}
        return {"objectives": [measure.name for measure in self.objectives], "fronts": fronts}

    def warn(self) -> None:
        """Warn if latencies of a front were not measured."""
        for device, entries in self.by_device().items():
            warn_unmeasured([entry.unmeasured for entry in entries], objectives_for(self.objectives, device),
                            str(self.run.path), "on the front")

    def write(self, trials: Sequence[FrozenTrial]) -> None:
        """Write `pareto.json`: the front of all objectives, its members for each device, and the settings of the
        search."""
        joint = front(self.entries, self.objectives)
        of_device = {device: front(self.entries, self.objectives, device) for device in devices_of(self.objectives)}
        everyone = {entry.arch.key: entry for entries in (joint, *of_device.values()) for entry in entries}
        write_json(self.run.path / "pareto.json", {
            "schema_version": SCHEMA_VERSION, "objectives": [measure.name for measure in self.objectives],
            "hypervolume": hypervolumes(trials, self.objectives), "saved_by_races": saved_by_races(trials),
            "front": [entry.arch.key for entry in joint],
            "devices": {device: [entry.arch.key for entry in entries] for device, entries in of_device.items()},
            "architectures": [entry.to_dict() for entry in everyone.values()]})


def candidates(trials: Iterable[FrozenTrial], space: SearchSpace, journal: Path) -> Iterator[FrontEntry]:
    """The trials that may be on a front: fully evaluated, within all limits, each architecture once.

    Raises:
        InputError: a trial does not fit the run's space or data.
    """
    seen: set[str] = set()
    for trial in trials:
        known = trial.user_attrs
        if is_feasible(trial) and not known.get("interval") and known["key"] not in seen:
            seen.add(known["key"])
            arch = space.decode(trial.params)
            if arch.key != known["key"]:
                raise InputError(str(journal), f"trial {trial.number} does not fit the run's space and data; "
                                               "restore the original files")
            yield FrontEntry(arch, dict(known["metrics"]), dict(known["costs"]), dict(known.get(UNMEASURED, {})))


def front(entries: Sequence[FrontEntry], objectives: Sequence[Measure], device: str | None = None) -> list[FrontEntry]:
    """The front of a device in all objectives except those of other devices, sorted by the first cost."""
    wanted = objectives_for(objectives, device)
    if not entries:
        return []
    values = [[entry.value(measure) for measure in wanted] for entry in entries]
    kept = [entries[i] for i in pareto(as_costs(values, [measure.maximise for measure in wanted]))]
    order = next((measure for measure in wanted if not measure.is_quality), wanted[0])
    return sorted(kept, key=lambda entry: (entry.value(order), entry.arch.key))


def objectives_for(objectives: Sequence[Measure], device: str | None) -> list[Measure]:
    """The objectives of a device; all of them if none is named."""
    return [measure for measure in objectives if device is None or measure.device in (None, device)]


def read_front(run: RunDir) -> list[FrontEntry]:
    """The architectures of `pareto.json`. Raises InputError if there is none, or it is damaged."""
    path, remedy = run.path / "pareto.json", f"{Command('pareto', run.name)} rewrites it"
    if not path.is_file():
        raise InputError(str(run.path), f"has not been searched; run {Command('search', run.name)}")
    data = checked(_FrontFile, read_json(path, remedy), str(path), remedy)
    return [FrontEntry(read_architecture(entry.architecture, path, remedy), entry.metrics, entry.costs,
                       entry.unmeasured_share) for entry in data.architectures]


def read_architecture(data: dict[str, Any], path: Path, remedy: str) -> Architecture:
    """An architecture from a file. Raises InputError with the remedy if it is damaged."""
    try:
        return Architecture.from_dict(data)
    except InputError as error:
        raise InputError(str(path), f"is damaged ({error.faults[0]})", remedy) from None
