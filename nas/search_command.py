"""`nas search` and `nas pareto`: start a search or go on with it, and show what it found."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console, Group, RenderableType
from rich.text import Text

from nas.bar import WorkBar
from nas.progress import interruptible
from nas.run_dir import RunDir, write_text
from nas.search.config import SearchConfig, changed, make_search, read_search
from nas.search.evaluated import read_evaluated
from nas.search.feasibility import SAMPLES, Feasibility, refuse_hopeless
from nas.search.front import as_costs, hypervolume
from nas.search.measures import Measure, devices_of
from nas.search.results import (
    Entry,
    Trials,
    candidates,
    entry_data,
    front,
    is_feasible,
    objectives_for,
    saved_by_races,
    write_front,
)
from nas.search.stage import Search
from nas.tables import table
from search_spaces import InputError

FILES = ("search.yaml", "study.journal", "starts.json", "trials.csv", "pareto.json")
"""What a search keeps in the run's folder, beside evaluations."""


@dataclass(frozen=True)
class Cluster:
    """Where and how wide a search runs: in this process, or on the Ray cluster at `address`."""

    address: str | None = None
    concurrency: int | None = None
    cpus_per_trial: float = 1.0
    gpus_per_trial: float = 0.0


@dataclass(frozen=True)
class Found:
    """The outcome of a search."""

    search: Search
    entries: list[Entry]
    finished: bool

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        found = _fronts_data(self.search.objectives, self.entries, None)
        return {"run": self.search.run.name, "trials": self.search.done, "saved_by_races": self._saved, **found}

    def table(self) -> RenderableType:
        """For a reader."""
        if not self.entries:
            return _unmet(self.search)
        parts: list[RenderableType] = [_fronts_table(self.search.objectives, self.entries, None)]
        if self._saved:
            parts.append(Text(f"races saved {self._saved:.0%} of the evaluating"))
        if self._repeated:
            parts.append(Text(f"{self._repeated:,} of {self.search.done:,} trials came to an architecture that was "
                              "known already: few are left within the limits"))
        return Group(*parts)

    @property
    def _saved(self) -> float:
        return saved_by_races(self.search.study.finished)

    @property
    def _repeated(self) -> int:
        """Trials of architectures that another trial had; a few are nothing to speak of."""
        keys = [trial.user_attrs["key"] for trial in self.search.study.finished if trial.state == TrialState.COMPLETE]
        found = len(keys) - len(set(keys))
        return found if found > len(keys) / 10 else 0


def search(run: str, settings: Mapping[str, Any], more: int | None, fresh: bool, cluster: Cluster,
           console: Console) -> Found:
    """Search until all trials are done, or until it is stopped. Raises InputError.

    Args:
        settings: what the user gave, by the names of `SearchConfig`; what was not given is missing.
        more: go on for so many trials.
        fresh: put an older search aside; what it evaluated is not evaluated again.
    """
    if fresh and more is not None:
        raise InputError("--fresh", "starts anew, --more goes on; give one of them")
    folder = RunDir.open(run)
    with folder.locked():
        old = None if fresh else _old(folder)
        if old is None and more is not None:
            raise InputError(str(folder.path), f"has not been searched; --more goes on with a search, --trials {more} "
                                               "starts one")
        before = {"objectives": _usual(settings)} if old is None else old.model_dump(exclude={"inputs"})
        made = Search(folder, make_search({**before, **settings}, "nas search"))
        if old is not None and (faults := list(changed(old, made.config))):
            raise InputError(str(folder.path), faults)
        _begin(made, fresh, console)
        if more is not None:
            made.config = made.config.model_copy(update={"trials": made.done + more})
        write_text(folder.path / "search.yaml", made.config.to_yaml())
        finished = _run(made, cluster, console)
        return Found(made, _write(made), finished)


def _old(folder: RunDir) -> SearchConfig | None:
    path = folder.path / "search.yaml"
    return read_search(path) if path.is_file() else None


def _begin(made: Search, fresh: bool, console: Console) -> None:
    """Everything that can be wrong is found before an older search is put aside."""
    refuse_hopeless(made.space, made.prices, made.limits)
    console.print(_feasibility_table(made.feasibility))
    made.feasibility.check(made.space.name)
    made.starts, made.evaluations  # noqa: B018 - read now; the warm start may be the older search
    if fresh:
        put_aside(made.run, console)
    made.open()


def _usual(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The loss and the latency on every device; the parameters where no device is named."""
    costs = [f"latency:{device}" for device in settings.get("devices", ())]
    return ("loss", *(costs or ["params"]))


def put_aside(folder: RunDir, console: Console) -> None:
    """Free a run for another search; what was evaluated is still known."""
    there = [folder.path / name for name in FILES if (folder.path / name).is_file()]
    if not there:
        return
    number = next(n for n in range(1, 10**6) if not (folder.path / "searches" / str(n)).exists())
    aside = folder.path / "searches" / str(number)
    aside.mkdir(parents=True)
    for path in there:
        shutil.move(path, aside / path.name)
    console.print(f"the older search is in {aside} now", markup=False)


def _run(made: Search, cluster: Cluster, console: Console) -> bool:
    known = [measure.name for measure in made.prices.measures()]
    rows = Trials(made.run.path / "trials.csv", list(made.task.metrics), known, list(made.space.genes))
    rows.start(made.study.finished)
    if made.done:
        console.print(f"going on after {made.done:,} of {made.config.trials:,} trials")
    with interruptible(console) as stop, _Bar(made, rows, console) as told:
        if cluster.address is None:
            from nas.search.local import run_local

            return run_local(made, told, stop)
        from nas.search.ray_backend import run_on_ray

        return run_on_ray(made, told, stop, cluster)


def _write(made: Search) -> list[Entry]:
    entries = list(candidates(made.study.finished, made.space))
    write_front(made.run, entries, made.objectives, made.study.finished)
    return entries


class _Bar:
    """A bar with the front's size and volume; passes trials on to `trials.csv`."""

    def __init__(self, made: Search, rows: Trials, console: Console) -> None:
        self.made, self.rows = made, rows
        self.bar = WorkBar(console)
        self.task = self.bar.add("searching", made.config.trials, made.done)
        self.maximise = [measure.maximise for measure in made.objectives]
        self.front = self.box = np.zeros((0, len(self.maximise)))
        self.failed, self.volume, self.changed, self.next_volume = 0, "", False, 0.0
        for trial in made.study.finished:
            self._note(trial)

    def __enter__(self) -> Any:
        self.bar.start()
        self._show()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def __call__(self, trial: FrozenTrial) -> None:
        self.rows.add(trial)
        self._note(trial)
        if trial.state != TrialState.PRUNED:
            self.bar.move(self.task)
        self._show()

    def _note(self, trial: FrozenTrial) -> None:
        self.failed += trial.state == TrialState.FAIL
        if trial.state != TrialState.COMPLETE:
            return
        point = as_costs([trial.values], self.maximise)
        self.box = np.vstack([self.box, point]) if len(self.box) < 2 else np.vstack([
            np.minimum(self.box, point).min(axis=0), np.maximum(self.box, point).max(axis=0)])
        if is_feasible(trial) and not trial.user_attrs.get("interval") and not (self.front <= point).all(axis=1).any():
            self.front = np.vstack([self.front[~(point <= self.front).all(axis=1)], point])
        self.changed = True

    def _show(self) -> None:
        """The volume of a large front takes a while: it is computed when something changed, now and then."""
        if self.changed and len(self.box) > 1 and time.monotonic() > self.next_volume:
            start = time.monotonic()
            low, high = self.box.min(axis=0), self.box.max(axis=0)
            scaled = (self.front - low) / np.where(high > low, high - low, 1.0)
            self.volume = f", hypervolume {hypervolume(scaled, np.ones(len(self.maximise))):.3f}"
            self.changed, self.next_volume = False, time.monotonic() + 20 * (time.monotonic() - start)
        says = f"front {len(self.front)}{self.volume}"
        if self.failed:
            says += f", failed {self.failed}"
        self.bar.say(self.task, says)


def pareto_of(run: str, device: str | None, as_json: bool) -> dict[str, Any] | RenderableType:
    """The front of a finished or stopped search; for a device profiled later, what was evaluated is priced anew.

    Raises:
        InputError: there is no search, or no such device.
    """
    folder = RunDir.open(run)
    found = read_evaluated(folder, device)
    if found.is_its_own:
        with suppress(InputError), folder.locked():  # a search that runs writes it itself
            write_front(folder, found.entries, found.objectives, found.trials)
    shown = _fronts_data if as_json else _fronts_table
    return shown(found.objectives, found.entries, device)


def _fronts(objectives: Sequence[Measure], entries: Sequence[Entry],
            device: str | None) -> dict[str | None, list[Entry]]:
    """The front of the device asked for, of every device, or of all objectives where there is no device."""
    devices: list[str | None] = [device] if device else [*devices_of(objectives)] or [None]
    return {each: front(entries, objectives, each) for each in devices}


def _fronts_data(objectives: Sequence[Measure], entries: Sequence[Entry], device: str | None) -> dict[str, Any]:
    fronts = {each or "all": [entry_data(entry) for entry in found]
              for each, found in _fronts(objectives, entries, device).items()}
    return {"objectives": [measure.name for measure in objectives], "fronts": fronts}


def _fronts_table(objectives: Sequence[Measure], entries: Sequence[Entry], device: str | None) -> RenderableType:
    parts: list[RenderableType] = []
    for each, found in _fronts(objectives, entries, device).items():
        title = f"front on {each}" if each else "front"
        parts += [Text(f"{title}: {len(found)} of {len(entries)} architectures", style="bold"),
                  _front_table(objectives_for(objectives, each), found), Text("")]
    return Group(*parts[:-1])


def _unmet(made: Search) -> RenderableType:
    """Why the front is empty: what was reached of each limit on quality."""
    done = [trial.user_attrs["metrics"] for trial in made.study.finished if trial.state == TrialState.COMPLETE]
    said = []
    for limit in made.limits:
        reached = [metrics[limit.measure.kind] for metrics in done if limit.measure.kind in metrics]
        if reached:
            best = max(reached) if limit.at_least else min(reached)
            said.append(f"{limit}: the best reached is {limit.measure.show(best)}")
    return Text("\n".join(["no architecture was found within all limits", *said]), style="yellow")


def _front_table(objectives: Sequence[Measure], shown: Sequence[Entry]) -> RenderableType:
    more = [Measure(kind) for kind in ("params", "macs") if Measure(kind) not in objectives]
    columns = [*objectives, *more]
    made = table("key", *(measure.name for measure in columns), right=tuple(measure.name for measure in columns))
    for entry in shown:
        made.add_row(entry.arch.key[:12], *(measure.show(entry.value(measure)) for measure in columns))
    return made


def _feasibility_table(found: Feasibility) -> RenderableType:
    head = ("least found", "median", "greatest found", "limit", *(["within it"] if found.limits else []))
    made = table("cost", *head, right=head)
    for each in found.ranges:
        limits = [limit for limit in found.limits if limit.measure == each.measure]
        said = ", ".join(str(limit).removeprefix(f"{each.measure.name} ") for limit in limits)
        show = each.measure.show
        within = [_share(each.within) if limits else ""] if found.limits else []
        made.add_row(each.measure.name, show(each.least), show(each.median), show(each.greatest), said, *within)
    if not found.limits:
        return made
    return Group(made, Text(f"{_share(found.share)} of {SAMPLES} random architectures are within all limits"))


def _share(value: float) -> str:
    return f"{value:.0%}" if value == 0 or value >= 0.01 else "less than 1%"
