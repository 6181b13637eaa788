"""The next architecture of a search: starting architectures first, then proposals of the sampler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

from optuna.trial import Trial
from pydantic import BaseModel

from nas.core.fronts import read_architecture, read_front
from nas.core.measures import Limit, Measure
from nas.core.resolve import Named, resolve
from nas.core.run_dir import RunDir, write_json
from nas.core.search_config import PRUNED
from nas.core.study import Study
from nas.stages.search.feasibility import Feasibility, assess
from nas.stages.search.pruned import pruned_starts
from nas.stages.search.samplers import Params, Problem, Proposer
from nas.stages.search.setup import SearchSetup
from search_spaces import Architecture, InputError, SearchSpace
from search_spaces.errors import Option
from search_spaces.files.reading import checked, read_json
from search_spaces.published.catalogue import load_published
from search_spaces.published.catalogue import names as published_names


class _StartsFile(BaseModel):
    """The fields of `starts.json`."""

    architectures: tuple[dict[str, Any], ...]


class Suggestions:
    """The sampler of a search, and the architectures it starts with.

    Raises:
        InputError: there is no such sampler.
    """

    def __init__(self, setup: SearchSetup) -> None:
        self.setup, self.space = setup, setup.space
        self._read = lru_cache(maxsize=20_000)(lambda items: self.space.read(dict(items)))
        self._proposer = Proposer(setup.config.sampler, self.problem(), setup.config.seed)
        self._tried: set[str] = set()

    @cached_property
    def feasibility(self) -> Feasibility:
        """The range of costs in the space; raises nothing, see its `check`."""
        return assess(self.space, self.setup.prices, self.setup.objectives, self.setup.limits)

    @cached_property
    def starts(self) -> dict[str, Params]:
        """The first trials: known extremes of the space and warm-start architectures within the limits.

        Raises:
            InputError: no warm-start architecture is usable.
        """
        ends = [arch for cost_range in self.feasibility.ranges for arch in (cost_range.cheapest, cost_range.dearest)]
        warm = [arch for name in self.setup.config.warm_start for arch in self._warm_start(name)]
        archs = [self.space.smallest(), self.space.largest(), self.feasibility.nearest, *ends, *warm]
        return {arch.key: self.space.encode(arch) for arch in archs if self.setup.within_limits(arch)}

    def _warm_start(self, name: str) -> list[Architecture]:
        return pruned_starts(self.setup) if name == PRUNED else warm_start(name, self.space)

    def resume(self, study: Study) -> None:
        """Continue after the trials of a study, with the starts it began with: their source may have changed."""
        self._tried = {trial.user_attrs["key"] for trial in study.finished}
        path = self.setup.run.path / "starts.json"
        if path.is_file() and study.finished:
            remedy = f"restore it, or restart with {Option('fresh')}"
            data = checked(_StartsFile, read_json(path, remedy), str(path), remedy)
            archs = [read_architecture(entry, path, remedy) for entry in data.architectures]
            self.starts = {arch.key: self.space.encode(arch) for arch in archs}
        else:
            write_json(path, {"schema_version": 1, "architectures": [
                self.space.decode(genes).to_dict() for genes in self.starts.values()]})

    def next(self, study: Study) -> tuple[Trial, Architecture]:
        """The next trial of a study, and its architecture."""
        number = len(study.memory.get_trials(deepcopy=False))
        start = next((genes for key, genes in self.starts.items() if key not in self._tried), None)
        trial = study.ask(self._proposer.sampler(number), start)
        arch = self._arch(trial.params)
        self._tried.add(arch.key)
        return trial, arch

    def problem(self) -> Problem:
        """What samplers know about the search without evaluations."""
        def many(measure: Measure) -> Callable[[Sequence[Params]], list[float]]:
            return lambda rows: [float(value) for value in
                                 self.setup.prices.values([measure], [self._arch(row) for row in rows])[:, 0]]

        def one(measure: Measure) -> Callable[[Params], float]:
            return lambda row: many(measure)([row])[0]

        def over(limit: Limit) -> Callable[[Params], float]:
            return lambda row: limit.excess(one(limit.measure)(row))

        exact = {i: measure for i, measure in enumerate(self.setup.objectives) if not measure.is_quality}
        return Problem(
            exact={i: one(measure) for i, measure in exact.items()}, key=lambda row: self._arch(row).key,
            constraints=[over(limit) for limit in self.setup.limits if not limit.measure.is_quality],
            exact_many={i: many(measure) for i, measure in exact.items()}, distributions=self.space.distributions(),
            active=lambda row: self._decode(row)[1],
            hints=lambda rows: [self.setup.prices.by_role(self._arch(row)) for row in rows])

    def _arch(self, params: Params) -> Architecture:
        return self._decode(params)[0]

    def _decode(self, params: Params) -> tuple[Architecture, frozenset[str]]:
        decoded: tuple[Architecture, frozenset[str]] = self._read(tuple(params.items()))
        return decoded


def warm_start(name: str, space: SearchSpace) -> list[Architecture]:
    """The architectures of a run's front, of a file, or of that name; `published` means all published ones.

    Raises:
        InputError: none of them is in the space.
    """
    archs = named(name)
    inside = [arch for arch in archs if arch in space]
    if not inside:
        raise InputError(Option("warm_start"), f"{name}: none of its {len(archs)} architectures is in {space.name}")
    return inside


def named(name: str) -> list[Architecture]:
    """Those of a name, wherever they lie. Raises InputError if it names nothing."""
    if name == "published":
        return [*map(load_published, published_names())]
    try:
        run = RunDir.open(name)
    except InputError:
        resolved = resolve(name)
        if not isinstance(resolved, Named):
            raise InputError(Option("warm_start"), f"{name} is a space; allowed: a run, an architecture, "
                                                   "published, pruned") from None
        return [resolved.arch]
    return [entry.arch for entry in read_front(run)]
