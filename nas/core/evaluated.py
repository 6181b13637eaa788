"""The evaluated architectures of a search, read from its files; profiles are read only for costs missing there."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from optuna.trial import FrozenTrial

from hardware_profiles.provenance import ProfileWarning
from nas import tasks
from nas.core.data_index import fitted_space
from nas.core.fronts import FrontEntry, candidates
from nas.core.measures import Measure, devices_of, parse_measure
from nas.core.measures.latency import latency_on
from nas.core.pricing import Prices
from nas.core.run_dir import RunDir
from nas.core.run_prices import load_prices, profile_digest, profile_input
from nas.core.search_config import SearchConfig, read_search
from nas.core.study import read_trials
from nas.tasks.base import Task
from search_spaces import SearchSpace
from search_spaces.errors import Command


@dataclass(frozen=True)
class SearchedRun:
    """The fully evaluated architectures of a search within its limits.

    Args:
        objectives: those of the search, and the latency on the requested device if it is not among them.
        trials: all that were finished.
        prices: of devices whose costs are not in the files, or that were profiled again.
        is_unchanged: whether these are the search's own objectives and costs.
    """

    run: RunDir
    config: SearchConfig
    space: SearchSpace
    objectives: tuple[Measure, ...]
    entries: list[FrontEntry]
    trials: list[FrozenTrial]
    prices: Prices
    is_unchanged: bool


def read_evaluated(run: RunDir, device: str | None = None, named: Sequence[Measure] = ()) -> SearchedRun:
    """The results of a finished, stopped or running search; nothing is evaluated again.

    If a device was profiled again, costs of all architectures are from the current profile; a ProfileWarning says so.

    Args:
        device: whose latency becomes an objective, even if the search did not use it.
        named: measures that every entry must have.

    Raises:
        InputError: there is no search, or a device has no price for what was evaluated.
    """
    config, task = read_search(run.path / "search.yaml"), tasks.get(run.config().task)
    own, space = config.measures(task), fitted_space(run)
    added = () if device is None or device in devices_of(own) else (latency_on(device),)
    trials = read_trials(run.path / "study.journal", own, space)
    entries = list(candidates(trials, space, run.path / "study.journal"))
    changed = _profiled_again(config, run, task)
    wanted = tuple(dict.fromkeys((*own, *added, *named)))
    lacking = [*changed, *_lacking(entries, wanted, config.all_devices(task)), *_unmarked(entries, task)]
    prices = load_prices(tuple(dict.fromkeys(lacking)), space, run)
    return SearchedRun(run, config, space, (*own, *added), _priced(prices, entries, wanted, changed), trials, prices,
                       is_unchanged=not added and not changed)


def _profiled_again(config: SearchConfig, run: RunDir, task: Task) -> tuple[str, ...]:
    """The devices of a search whose profiles changed since its start; warns for each."""
    inputs = {name: config.inputs.get(profile_input(name)) for name in config.all_devices(task)}
    changed = tuple(name for name, before in inputs.items()
                    if before is not None and profile_digest(name) not in (None, before))
    for name in changed:
        warnings.warn(f"the profile of {name} changed since the search; costs are from the current profile; "
                      f"{Command('search', run.name, fresh=True)} searches again with "
                      "them", ProfileWarning, stacklevel=3)
    return changed


def _lacking(entries: Sequence[FrontEntry], wanted: Sequence[Measure], known: Collection[str]) -> Iterator[str]:
    """The devices of measures that some entry lacks, or that the search did not use."""
    for measure in wanted:
        if measure.device is not None and (measure.device not in known or
                                           any(measure.name not in entry.costs for entry in entries)):
            yield measure.device


def _unmarked(entries: Sequence[FrontEntry], task: Task) -> Iterator[str]:
    """Available devices whose costs were stored by an older version without unmeasured shares."""
    names = dict.fromkeys(name for entry in entries for name in entry.costs if name not in entry.unmeasured)
    measures = [parse_measure(name, task.metrics) for name in names]
    for device in devices_of([measure for measure in measures if measure.kind.partly_unmeasured]):
        if profile_digest(device) is not None:
            yield device


def _priced(prices: Prices, entries: list[FrontEntry], wanted: Sequence[Measure],
            changed: Collection[str]) -> list[FrontEntry]:
    """The entries with costs that are missing or from another profile."""
    if not entries:
        return []
    known = [measure for measure in prices.measures(entries[0].arch) if measure.device in changed]
    new = [measure for measure in dict.fromkeys((*wanted, *known)) if not measure.is_quality and
           (measure.device in changed or any(measure.name not in entry.costs for entry in entries))]
    values = prices.values(new, [entry.arch for entry in entries]).tolist()
    names = [measure.name for measure in new]
    priced = [replace(entry, costs={**entry.costs, **dict(zip(names, row))}) for entry, row in zip(entries, values)]
    return _marked(prices, priced, names)


def _marked(prices: Prices, entries: list[FrontEntry], new: Collection[str]) -> list[FrontEntry]:
    """The entries with unmeasured shares of costs that are missing in the files or new."""
    missing = [measure for measure in prices.measures(entries[0].arch) if measure.kind.partly_unmeasured and
               any(measure.name in entry.costs and (measure.name in new or measure.name not in entry.unmeasured)
                   for entry in entries)]
    names = [measure.name for measure in missing]
    shares = prices.unmeasured_shares(missing, [entry.arch for entry in entries]).tolist()
    return [replace(entry, unmeasured={**entry.unmeasured, **dict(zip(names, row))})
            for entry, row in zip(entries, shares)]
