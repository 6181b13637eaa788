"""The stage `nas search`: what both backends share. A backend asks for proposals and gives evaluations back."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial, Trial, TrialState

from hardware_profiles.stored import folder_of
from nas import tasks
from nas import train as training
from nas.run_dir import RunDir, write_json
from nas.search.config import SearchConfig
from nas.search.evaluations import Evaluations
from nas.search.evaluator import Evaluation, Evaluator, Race, batches_of, fast_size, replayed
from nas.search.feasibility import Feasibility, assess
from nas.search.measures import Limit, Measure
from nas.search.pricing import Prices, load_devices, phases
from nas.search.results import is_feasible, read_architectures
from nas.search.samplers._problem import Params, Problem
from nas.search.samplers._registry import Proposer
from nas.search.study import Study, copied
from search_spaces import Architecture, InputError

MOST_MISSES = 200
"""Proposals in a row that may violate a limit before the search gives up."""
RACED = ("loss", "perplexity")
"""Qualities that follow from the loss of single batches."""


@dataclass(frozen=True)
class Proposal:
    """An architecture that has to be evaluated."""

    trial: Trial
    arch: Architecture
    race: Race | None = None


class Search:
    """The search of a run: its study, its prices and what is known already.

    Raises:
        InputError: the run is not trained, a device is not profiled, or a measure, limit or sampler is wrong.
    """

    def __init__(self, run: RunDir, config: SearchConfig) -> None:
        training.check_trained(run)
        self.run = run
        self.task = tasks.get(run.config().task)
        self.prepared = training.prepare(run)
        self.space = self.prepared.space
        self.objectives, self.limits = config.measures(self.task), config.limits(self.task)
        self.prices = Prices(load_devices(config.all_devices(self.task)), self.space.context)
        self._check_prices()
        self.exact = [measure for measure in self.objectives if not measure.is_quality]
        self.qualities = [measure for measure in self.objectives if measure.is_quality]
        device = training.pick_device(run.config().training.device)
        self.batch_size = config.batch_size or fast_size(device, self.space.context)
        self.config = config.model_copy(update={"batch_size": self.batch_size, "inputs": self._inputs(config)})
        self.told: Callable[[FrozenTrial], None] = lambda trial: None
        """Hears of every finished trial."""
        self._costs: dict[str, dict[str, float]] = {}
        self._decode = lru_cache(maxsize=20_000)(lambda items: self.space.read(dict(items)))
        self.proposer = Proposer(config.sampler, self.problem(), config.seed)

    def _check_prices(self) -> None:
        """Raises InputError where a device was profiled for other units, such as another vocabulary."""
        for name, device in self.prices.devices.items():
            for phase in phases(device):
                try:
                    device.predict_many([self.space.smallest(), self.space.largest()], phase)
                except InputError as error:
                    says = error.faults[0].says.split("; run ")[0]
                    raise InputError(name, f"{says}; run nas profile {name} --space {self.run.path}") from None

    @cached_property
    def feasibility(self) -> Feasibility:
        """What the space can cost; raises nothing, see its `check`."""
        return assess(self.space, self.prices, self.objectives, self.limits)

    def _study(self, path: Path) -> Study:
        return Study(path, [measure.name for measure in self.objectives],
                     [measure.maximise for measure in self.objectives], self.space.distributions())

    def read(self) -> list[FrozenTrial]:
        """What was found so far, also while another process goes on searching."""
        with copied(self.run.path / "study.journal") as path:
            return self._study(path).finished

    def open(self) -> None:
        """Read what was found so far, and get ready to go on."""
        self.study = self._study(self.run.path / "study.journal")
        self._keep_starts()
        self.rivals = _Rivals(len(self.exact))
        self._tried = {trial.user_attrs["key"] for trial in self.study.finished}
        self.done = 0
        """Trials that count: evaluated, or failed at it. One that violates a limit was never evaluated."""
        for trial in self.study.finished:
            self._remember(trial)

    def evaluator(self) -> Evaluator:
        """What evaluates in this process. Raises InputError where the supernet is not trained."""
        net = training.load_supernet(self.run, self.space)
        return Evaluator(net, self.task, self.prepared, self.run.config().training, limit=self.config.limit,
                         size=self.batch_size, full=self.full)

    @cached_property
    def evaluations(self) -> Evaluations:
        """What was evaluated before under the same conditions. Raises InputError where that is damaged."""
        conditions = self.conditions()
        name = hashlib.sha256(repr(sorted(conditions.items())).encode()).hexdigest()[:12]
        return Evaluations(self.run.path / "evaluations" / f"{name}.jsonl", conditions)

    @cached_property
    def counts(self) -> list[int]:
        """How many labels the batches of an evaluation have."""
        batches = batches_of(self.prepared, "valid", self.batch_size, self.config.limit)
        return [batch.n_labels for batch in batches]

    @property
    def full(self) -> bool:
        """Whether what is costly has to be measured too, such as BLEU."""
        wanted = {measure.kind for measure in (*self.qualities, *(limit.measure for limit in self.limits))}
        return not wanted.isdisjoint(self.task.costly)

    def propose(self) -> Proposal | None:
        """The next architecture to evaluate; None where a proposal could be finished at once.

        Raises:
            InputError: too many proposals in a row violate a limit.
        """
        for _ in range(MOST_MISSES):
            trial = self._ask()
            arch = self._arch(trial.params)
            if self._allowed(arch):
                break
            self._tell(trial, arch, TrialState.PRUNED, None, {"reason": "violates a limit"})
        else:
            raise InputError("limits", f"{MOST_MISSES} proposals in a row of the sampler {self.config.sampler} violate "
                                       "a limit; start anew with --fresh --sampler predictor, which knows them, or "
                                       "with wider limits")
        race = self._race(arch)
        known = self.evaluations.get(arch.key)
        found = replayed(known, race, self.counts, self.task.metrics) if known else None
        if found is not None:
            self.accept(Proposal(trial, arch), found)
            return None
        return Proposal(trial, arch, race)

    def accept(self, proposal: Proposal, found: Evaluation) -> FrozenTrial:
        """Take an evaluation into the study."""
        arch = proposal.arch
        values = [found.metrics.get(measure.kind, math.nan) if measure.is_quality else self.costs(arch)[measure.name]
                  for measure in self.objectives]
        reason = found.reason or ("" if np.isfinite(values).all() else "a value is not finite")
        if reason:
            return self._tell(proposal.trial, arch, TrialState.FAIL, None, {"reason": reason})
        known = self.evaluations.get(arch.key)
        if known is None or len(known.losses) < len(found.losses):
            self.evaluations.add(arch.key, found)
        return self._tell(proposal.trial, arch, TrialState.COMPLETE, values, {
            "metrics": found.metrics, "interval": found.interval, "seen": len(found.losses)})

    def costs(self, arch: Architecture) -> dict[str, float]:
        """Every cost of an architecture by its name."""
        found = self._costs.get(arch.key)
        if found is None:
            found = self._costs[arch.key] = self.prices.all_of(arch)
        return found

    def _ask(self) -> Trial:
        number = len(self.study.memory.get_trials(deepcopy=False))
        fixed = next((genes for key, genes in self.starts.items() if key not in self._tried), None)
        trial = self.study.ask(self.proposer.sampler(number), fixed)
        self._tried.add(self._arch(trial.params).key)
        return trial

    def _tell(self, trial: Trial, arch: Architecture, state: TrialState, values: Sequence[float] | None,
              attributes: dict[str, Any]) -> FrozenTrial:
        limits = [*self._limited(arch), *self._limited_quality(attributes.get("metrics", {}))]
        constraints = {str(limit): limit.excess(value) for limit, value in limits}
        told = self.study.tell(trial, state, values, {"key": arch.key, "costs": self.costs(arch), **attributes},
                               constraints)
        self._remember(told)
        self.told(told)
        return told

    def _allowed(self, arch: Architecture) -> bool:
        return all(limit.holds(value) for limit, value in self._limited(arch))

    def _limited(self, arch: Architecture) -> Iterator[tuple[Limit, float]]:
        costs = self.costs(arch)
        return ((limit, costs[limit.measure.name]) for limit in self.limits if not limit.measure.is_quality)

    def _limited_quality(self, metrics: Mapping[str, float]) -> Iterator[tuple[Limit, float]]:
        return ((limit, metrics[limit.measure.kind]) for limit in self.limits if limit.measure.kind in metrics)

    def _arch(self, params: Params) -> Architecture:
        return self._read(params)[0]

    def _read(self, params: Params) -> tuple[Architecture, frozenset[str]]:
        found: tuple[Architecture, frozenset[str]] = self._decode(tuple(params.items()))
        return found

    def problem(self) -> Problem:
        """What samplers can know of the search before anything is evaluated."""
        def many(measure: Measure) -> Callable[[Sequence[Params]], list[float]]:
            return lambda rows: [float(value) for value in
                                 self.prices.values([measure], [self._arch(row) for row in rows])[:, 0]]

        def one(measure: Measure) -> Callable[[Params], float]:
            return lambda row: many(measure)([row])[0]

        def over(limit: Limit) -> Callable[[Params], float]:
            return lambda row: limit.excess(one(limit.measure)(row))

        exact = {i: measure for i, measure in enumerate(self.objectives) if not measure.is_quality}
        return Problem(
            exact={i: one(measure) for i, measure in exact.items()}, key=lambda row: self._arch(row).key,
            constraints=[over(limit) for limit in self.limits if not limit.measure.is_quality],
            exact_many={i: many(measure) for i, measure in exact.items()}, distributions=self.space.distributions(),
            active=lambda row: self._read(row)[1],
            hints=lambda rows: [self.prices.by_role(self._arch(row)) for row in rows])

    def _keep_starts(self) -> None:
        """The starts are kept: what a warm start was read from may change."""
        path = self.run.path / "starts.json"
        if path.is_file() and self.study.finished:
            self.starts = {arch.key: self.space.encode(arch) for arch in read_architectures(path)}
        else:
            write_json(path, {"schema_version": 1, "architectures": [
                self.space.decode(genes).to_dict() for genes in self.starts.values()]})

    @cached_property
    def starts(self) -> dict[str, dict[str, Any]]:
        """Known ends of the space, and what a warm start brings, as the first trials; as far as the limits allow.

        Raises:
            InputError: the warm start brings nothing.
        """
        ends = [arch for each in self.feasibility.ranges for arch in (each.cheapest, each.dearest)]
        archs = [self.space.smallest(), self.space.largest(), self.feasibility.nearest, *ends, *self._warm()]
        return {arch.key: self.space.encode(arch) for arch in archs if self._allowed(arch)}

    def _warm(self) -> list[Architecture]:
        from nas.search.warm import warm_start

        return [arch for name in self.config.warm_start for arch in warm_start(name, self.space)]

    def _race(self, arch: Architecture) -> Race | None:
        if not self.config.race or len(self.qualities) != 1 or self.qualities[0].kind not in RACED:
            return None
        costs = self.costs(arch)
        return self.rivals.best([costs[measure.name] for measure in self.exact])

    def _remember(self, trial: FrozenTrial) -> None:
        """Count a finished trial, and note it as a rival of those to come."""
        self.done += trial.state != TrialState.PRUNED
        known = self.evaluations.get(trial.user_attrs.get("key", ""))
        if is_feasible(trial) and not trial.user_attrs["interval"] and known and "loss" in known.metrics:
            costs = [trial.user_attrs["costs"][measure.name] for measure in self.exact]
            self.rivals.add(costs, Race(known.metrics["loss"], known.losses))

    def _inputs(self, config: SearchConfig) -> dict[str, str]:
        """Digests of everything that trials depend on beside the config."""
        found = {"supernet.safetensors": _digest(self.run.weights_path), "the data": self.prepared.fingerprint}
        for name in config.all_devices(self.task):
            folder = folder_of(name)
            found[f"the profile of {name}"] = _digest(folder / "profile.yaml", folder / "table.csv")
        return found

    def conditions(self) -> dict[str, Any]:
        """Everything that an evaluation depends on but the architecture."""
        return {"weights_sha256": self.config.inputs["supernet.safetensors"], "data": self.prepared.fingerprint,
                "split": "valid", "full": self.full, "limit": self.config.limit, "batch_size": self.batch_size}


def _digest(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _Rivals:
    """Finished architectures by their costs."""

    def __init__(self, n_costs: int) -> None:
        self.costs = np.zeros((0, n_costs))
        self.races: list[Race] = []

    def add(self, costs: Sequence[float], race: Race) -> None:
        """One more; kept only where none is as cheap and as good."""
        known = self.best(costs)
        if known is None or race.loss < known.loss:
            self.costs = np.vstack([self.costs, np.asarray(costs, dtype=np.float64)[None]])
            self.races.append(race)

    def best(self, costs: Sequence[float]) -> Race | None:
        """The best that costs no more in anything."""
        rows = np.flatnonzero((self.costs <= np.asarray(costs, dtype=np.float64)).all(axis=1))
        return min((self.races[row] for row in rows), key=lambda race: race.loss, default=None)
