"""What a search evaluated, with the costs on its devices and on any that was profiled since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from optuna.trial import FrozenTrial

from nas import tasks
from nas.run_dir import RunDir
from nas.search.config import read_search
from nas.search.measures import Measure, devices_of
from nas.search.results import Entry, candidates
from nas.search.stage import Search


@dataclass(frozen=True)
class Evaluated:
    """The architectures of a search that were evaluated to the end and are within its limits.

    Args:
        objectives: the search's, and the latency on the device asked for where it is none of theirs.
        trials: all that were finished.
    """

    search: Search
    objectives: tuple[Measure, ...]
    entries: list[Entry]
    trials: list[FrozenTrial]

    @property
    def is_its_own(self) -> bool:
        """Whether these are the search's own objectives."""
        return self.objectives == self.search.objectives


def read_evaluated(run: RunDir, device: str | None = None, named: Sequence[Measure] = ()) -> Evaluated:
    """What a finished, stopped or running search evaluated; nothing is evaluated again.

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
    trials = made.read()
    return Evaluated(made, objectives, _priced(made, list(candidates(trials, made.space)), wanted), trials)


def _priced(made: Search, entries: list[Entry], wanted: Sequence[Measure]) -> list[Entry]:
    """The entries with the costs that the search did not look up."""
    new = [measure for measure in wanted if not measure.is_quality and
           any(measure.name not in entry.costs for entry in entries)]
    values = made.prices.values(new, [entry.arch for entry in entries]).tolist()
    names = [measure.name for measure in new]
    return [replace(entry, costs={**entry.costs, **dict(zip(names, row))}) for entry, row in zip(entries, values)]
