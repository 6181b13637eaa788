"""What a search evaluated, with the costs on its devices and on any that was profiled since."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from optuna.trial import FrozenTrial

from hardware_profiles.provenance import ProfileWarning
from nas import tasks
from nas.run_dir import RunDir
from nas.search.config import SearchConfig, read_search
from nas.search.measures import Measure, devices_of
from nas.search.results import Entry, candidates
from nas.search.stage import Search


@dataclass(frozen=True)
class Evaluated:
    """The architectures of a search that were evaluated to the end and are within its limits.

    Args:
        objectives: the search's, and the latency on the device asked for where it is none of theirs.
        trials: all that were finished.
        changed: devices that were profiled anew since.
    """

    search: Search
    objectives: tuple[Measure, ...]
    entries: list[Entry]
    trials: list[FrozenTrial]
    changed: tuple[str, ...] = ()

    @property
    def is_its_own(self) -> bool:
        """Whether these are the search's own objectives and costs."""
        return self.objectives == self.search.objectives and not self.changed


def read_evaluated(run: RunDir, device: str | None = None, named: Sequence[Measure] = ()) -> Evaluated:
    """What a finished, stopped or running search evaluated; nothing is evaluated again.

    Costs on a device that was profiled anew since are today's, for all architectures alike; a ProfileWarning says so.

    Args:
        device: whose latency shall be an objective, also where the search did not know it.
        named: measures that every entry shall have.

    Raises:
        InputError: there is no search, or a device has no price for what was evaluated.
    """
    config = read_search(run.path / "search.yaml")
    objectives = config.measures(tasks.get(run.config().task))
    if device is not None and device not in devices_of(objectives):
        objectives = (*objectives, Measure("latency", device))
    wanted = tuple(dict.fromkeys((*objectives, *named)))
    devices = tuple(dict.fromkeys((*config.devices, *devices_of(wanted))))
    made = Search(run, config.model_copy(update={"devices": devices}))
    changed = _profiled_anew(config, made)
    for name in changed:
        warnings.warn(f"the profile of {name} changed since the search: its costs are today's; nas search {run.name} "
                      "--fresh searches with them", ProfileWarning, stacklevel=2)
    trials = made.read()
    entries = _priced(made, list(candidates(trials, made.space)), wanted, changed)
    return Evaluated(made, objectives, entries, trials, changed)


def _profiled_anew(config: SearchConfig, made: Search) -> tuple[str, ...]:
    """The devices of a search whose profiles are other ones than it was started with."""
    digests = {name: f"the profile of {name}" for name in made.prices.devices}
    return tuple(name for name, entry in digests.items()
                 if entry in config.inputs and config.inputs[entry] != made.config.inputs[entry])


def _priced(made: Search, entries: list[Entry], wanted: Sequence[Measure], changed: Collection[str]) -> list[Entry]:
    """The entries with the costs that the search did not look up, or looked up elsewhere."""
    known = [measure for measure in made.prices.measures() if measure.device in changed]
    new = [measure for measure in dict.fromkeys((*wanted, *known)) if not measure.is_quality and
           (measure.device in changed or any(measure.name not in entry.costs for entry in entries))]
    values = made.prices.values(new, [entry.arch for entry in entries]).tolist()
    names = [measure.name for measure in new]
    return [replace(entry, costs={**entry.costs, **dict(zip(names, row))}) for entry, row in zip(entries, values)]
