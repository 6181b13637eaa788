"""What a search found: every trial as a row, and the front of each device."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from nas.run_dir import RunDir, write_json, write_text
from nas.search.front import Hypervolume, as_costs, pareto
from nas.search.measures import Measure, devices_of
from search_spaces import Architecture, InputError, SearchSpace

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Entry:
    """An architecture of a front: what it is, how good, what it costs."""

    arch: Architecture
    metrics: dict[str, float]
    costs: dict[str, float]

    def value(self, measure: Measure) -> float:
        """One measure of it."""
        return self.metrics[measure.kind] if measure.is_quality else self.costs[measure.name]


class Trials:
    """`trials.csv`: a row per finished trial, added as it finishes."""

    def __init__(self, path: Path, metrics: Sequence[str], costs: Sequence[str], genes: Sequence[str]) -> None:
        self.path, self.metrics, self.costs, self.genes = path, list(metrics), list(costs), list(genes)

    def start(self, trials: Iterable[FrozenTrial]) -> None:
        """Write the file anew with the trials there are."""
        head = ["number", "state", "key", *self.metrics, *self.costs, "estimated", "low", "high", "reason", *self.genes]
        write_text(self.path, "".join([_line(head), *(_line(self._row(trial)) for trial in trials)]))

    def add(self, trial: FrozenTrial) -> None:
        """One more row."""
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(_line(self._row(trial)))

    def _row(self, trial: FrozenTrial) -> list[Any]:
        known = trial.user_attrs
        metrics, costs = known.get("metrics", {}), known.get("costs", {})
        low, high = known.get("interval") or ("", "")
        return [trial.number, trial.state.name, known.get("key", ""), *(metrics.get(name, "") for name in self.metrics),
                *(costs.get(name, "") for name in self.costs), int(low != ""), low, high, known.get("reason", ""),
                *(trial.params.get(name, "") for name in self.genes)]


def is_feasible(trial: FrozenTrial) -> bool:
    """Whether a trial was evaluated and is within all limits, also those on quality."""
    return trial.state == TrialState.COMPLETE and all(value <= 0 for value in trial.constraints.values())


def candidates(trials: Iterable[FrozenTrial], space: SearchSpace) -> Iterator[Entry]:
    """The trials that may stand on a front: evaluated to the end, within all limits, each architecture once."""
    seen: set[str] = set()
    for trial in trials:
        known = trial.user_attrs
        if is_feasible(trial) and not known.get("interval") and known["key"] not in seen:
            seen.add(known["key"])
            yield Entry(space.decode(trial.params), dict(known["metrics"]), dict(known["costs"]))


def front(entries: Sequence[Entry], objectives: Sequence[Measure], device: str | None = None) -> list[Entry]:
    """The front in those objectives that are no other device's, by the first cost."""
    wanted = objectives_for(objectives, device)
    if not entries:
        return []
    values = [[entry.value(measure) for measure in wanted] for entry in entries]
    kept = [entries[i] for i in pareto(as_costs(values, [measure.maximise for measure in wanted]))]
    order = next((measure for measure in wanted if not measure.is_quality), wanted[0])
    return sorted(kept, key=lambda entry: (entry.value(order), entry.arch.key))


def objectives_for(objectives: Sequence[Measure], device: str | None) -> list[Measure]:
    """The objectives that count on a device; all of them where none is named."""
    return [measure for measure in objectives if device is None or measure.device in (None, device)]


def hypervolumes(trials: Sequence[FrozenTrial], objectives: Sequence[Measure]) -> list[float]:
    """The share of the box between the best and the worst of all trials that the front covers, after each trial."""
    done = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    if not done:
        return []
    costs = as_costs([trial.values for trial in done], [measure.maximise for measure in objectives])
    low, high = costs.min(axis=0), costs.max(axis=0)
    scaled = (costs - low) / np.where(high > low, high - low, 1.0)
    volume = Hypervolume(np.ones(len(objectives)))
    return [volume.add(row) if is_feasible(trial) and not trial.user_attrs.get("interval") else volume.value
            for trial, row in zip(done, scaled)]


def saved_by_races(trials: Sequence[FrozenTrial]) -> float:
    """The share of all batches that races left out."""
    seen = [(trial.user_attrs["key"], trial.user_attrs["seen"]) for trial in trials
            if trial.state == TrialState.COMPLETE]
    batches = dict(seen).values()
    return 1 - sum(batches) / (max(batches) * len(batches)) if seen else 0.0


def write_front(run: RunDir, entries: Sequence[Entry], objectives: Sequence[Measure],
                trials: Sequence[FrozenTrial]) -> None:
    """Write `pareto.json`: the front of all objectives, which of it is each device's, and how it came about."""
    found = front(entries, objectives)
    devices = devices_of(objectives)
    of_device = {device: [entry.arch.key for entry in front(entries, objectives, device)] for device in devices}
    everyone = {entry.arch.key: entry for entry in found}
    everyone |= {entry.arch.key: entry for device in devices for entry in front(entries, objectives, device)}
    write_json(run.path / "pareto.json", {
        "schema_version": SCHEMA_VERSION, "objectives": [measure.name for measure in objectives],
        "hypervolume": hypervolumes(trials, objectives),
        "saved_by_races": saved_by_races(trials), "front": [entry.arch.key for entry in found], "devices": of_device,
        "architectures": [entry_data(entry) for entry in everyone.values()]})


def entry_data(entry: Entry) -> dict[str, Any]:
    """An entry as JSON has it."""
    return {"key": entry.arch.key, "metrics": entry.metrics, "costs": entry.costs, "architecture": entry.arch.to_dict()}


def read_front(run: RunDir) -> list[Entry]:
    """The architectures of `pareto.json`. Raises InputError where there is none, or it is damaged."""
    path = run.path / "pareto.json"
    try:
        data = json.loads(path.read_text("utf-8"))
        return [_entry(each) for each in data["architectures"]]
    except FileNotFoundError:
        raise InputError(str(run.path), f"has not been searched; run nas search {run.name}") from None
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(str(path), f"is damaged; nas pareto {run.name} writes it anew") from None


def _entry(data: Mapping[str, Any]) -> Entry:
    arch = Architecture.from_json(json.dumps(data["architecture"]))
    return Entry(arch, dict(data["metrics"]), dict(data["costs"]))


def read_architectures(path: Path) -> list[Architecture]:
    """The architectures a search starts from. Raises InputError for a damaged file."""
    try:
        found = json.loads(path.read_text("utf-8"))["architectures"]
        return [Architecture.from_json(json.dumps(each)) for each in found]
    except (ValueError, KeyError, TypeError):
        raise InputError(str(path), "is damaged; put it back, or start anew with --fresh") from None


def _line(cells: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
