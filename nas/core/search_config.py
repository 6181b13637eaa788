"""The settings of a search, checked once and stored in the run's folder as `search.yaml`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nas.core.config import faults_of
from nas.core.measures import Limit, Measure, devices_of, parse_all, parse_limits
from nas.tasks.base import Task
from search_spaces import Fault, InputError
from search_spaces.errors import Command, Option
from search_spaces.files.reading import read_yaml

CALIBRATED = "calibrated_loss"
PRUNED = "pruned"
"""The warm start with smaller versions of the largest architecture."""
FREE = ("trials", "inputs")
"""What may change when a search is resumed, or is compared separately."""


class SearchConfig(BaseModel):
    """Everything that determines which architectures a search visits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = Field(1, description="schema version of this file")
    objectives: tuple[str, ...] = Field(("loss", "params"), min_length=1, description="metrics of the task and costs, "
                                        "each minimised or maximised according to its kind; with devices, the default "
                                        "is loss and the latency on each")
    max: tuple[str, ...] = Field((), description="upper limits, such as latency:cpu=12ms")
    min: tuple[str, ...] = Field((), description="lower limits")
    devices: tuple[str, ...] = Field((), description="profiled devices; each gets its own front")
    sampler: str = Field("predictor", description="sampling algorithm")
    trials: int = Field(200, ge=1, description="number of architectures to evaluate")
    seed: int = Field(0, ge=0, description="random seed; the same seed proposes the same architectures")
    limit: int | None = Field(256, ge=1, description="validation examples per evaluation; null: all")
    batch_size: int | None = Field(None, ge=1, description="batch size of evaluations; null: chosen for speed")
    race: bool = Field(True, description="whether to stop evaluating clearly dominated architectures early")
    warm_start: tuple[str, ...] = Field((), description="architectures to start with: runs, architectures, published, "
                                        "pruned (the largest with fewer layers, with smaller sizes, and without its "
                                        "least important parts); default: pruned for runs that start from a trained "
                                        "model")
    calibrate: str | None = Field(None, description="run whose architectures, trained from scratch by nas rank, "
                                  "correct inherited losses; adds the metric calibrated_loss, which replaces loss in "
                                  "the default objectives")
    inputs: dict[str, str] = Field(default_factory=dict, description="digests of the search's inputs; written by the "
                                                                     "search")

    def to_yaml(self) -> str:
        """The text of the config file."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)

    def metrics(self, task: Task) -> dict[str, bool]:
        """The metrics of a trial, and whether more is better."""
        return {**task.metrics, **({} if self.calibrate is None else {CALIBRATED: False})}

    def measures(self, task: Task) -> tuple[Measure, ...]:
        """The objectives. Raises InputError if there is no such measure, or none that has to be evaluated."""
        measures = parse_all(self.objectives, self.metrics(task))
        if not any(measure.is_quality for measure in measures):
            raise InputError(Option("objective"), "a search needs a quality objective besides costs; allowed: "
                                          f"{', '.join(self.metrics(task))}")
        return measures

    def limits(self, task: Task) -> tuple[Limit, ...]:
        """The limits. Raises InputError."""
        return parse_limits(self.max, self.min, self.metrics(task))

    def all_devices(self, task: Task) -> tuple[str, ...]:
        """Every device that is named anywhere."""
        named = devices_of([*self.measures(task), *(limit.measure for limit in self.limits(task))])
        return tuple(dict.fromkeys((*self.devices, *named)))

    def differences(self, other: SearchConfig) -> Iterator[str]:
        """`key is mine in the search, requested: other's` of everything that changes what is visited."""
        theirs = other.model_dump()
        for key, mine in self.model_dump().items():
            if mine != theirs[key] and key not in FREE:
                yield f"{key} is {_shown(mine)} in the search, requested: {_shown(theirs[key])}"


def changed(old: SearchConfig, new: SearchConfig) -> Iterator[Fault]:
    """Reasons why a search cannot be resumed: other settings or inputs than it was started with."""
    for difference in old.differences(new):
        yield Fault("", f"{difference}; to change it, restart with {Option('fresh')}")
    for name, digest in old.inputs.items():
        if new.inputs.get(name) != digest:
            yield Fault("", f"{name} changed since the search started: its trials would not be comparable; restart "
                            "with "
                            f"{Option('fresh')}; known evaluations are reused")


def read_search(path: Path) -> SearchConfig:
    """A search's config from its file. Raises InputError with all faults."""
    if not path.is_file():
        raise InputError(str(path.parent), f"has not been searched; run {Command('search', path.parent.name)}")
    return make_search(read_yaml(path), str(path))


def search_metrics(run: Path, task: Task) -> dict[str, bool]:
    """The metrics of the trials of a run's search, and whether more is better; those of its task if there is none."""
    path = run / "search.yaml"
    return read_search(path).metrics(task) if path.is_file() else dict(task.metrics)


def make_search(settings: object, where: str) -> SearchConfig:
    """A config of settings. Raises InputError with every wrong one and what is allowed."""
    try:
        return SearchConfig.model_validate(settings)
    except ValidationError as error:
        raise InputError(where, list(faults_of(error, SearchConfig))) from None


def _shown(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value)) or "nothing"
    return str(value)
