"""The stage `search`: start a search or resume it, until all its trials are done."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from nas.core.evaluated import read_evaluated
from nas.core.fronts import ParetoFronts, candidates
from nas.core.measures import Limit
from nas.core.measures.latency import latency_on
from nas.core.progress import StageProgress
from nas.core.run_dir import RunDir
from nas.core.search_config import CALIBRATED, PRUNED, SearchConfig, changed, make_search, read_search
from nas.core.stopping import Stop, Stopped
from nas.core.trials import saved_by_races
from nas.stages.search.calibration import calibrate, usable
from nas.stages.search.evaluations import Evaluations
from nas.stages.search.feasibility import refuse_infeasible
from nas.stages.search.front_progress import FrontProgress
from nas.stages.search.request import ParetoRequest, SearchCluster, SearchRequest
from nas.stages.search.search import Search
from nas.stages.search.setup import SearchSetup
from nas.stages.search.suggestions import Suggestions
from search_spaces import InputError
from search_spaces.errors import Command, Option

FILES = ("search.yaml", "study.journal", "starts.json", "trials.csv", "pareto.json")
"""Files of a search in the run's folder, besides evaluations."""


@dataclass(frozen=True)
class SearchResult:
    """The outcome of a search.

    Args:
        trials: all that were finished.
        done: evaluated or failed ones.
    """

    fronts: ParetoFronts
    limits: tuple[Limit, ...]
    trials: list[FrozenTrial]
    done: int

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON output."""
        return {"run": self.fronts.run.name, "trials": self.done, "saved_by_races": self.saved, **self.fronts.to_dict()}

    @property
    def saved(self) -> float:
        """The share of all batches saved by early stopping."""
        return saved_by_races(self.trials)

    @property
    def repeated(self) -> int:
        """Evaluated trials of architectures that another trial had."""
        keys = [trial.user_attrs["key"] for trial in self.trials if trial.state == TrialState.COMPLETE]
        return len(keys) - len(set(keys))

    def best_reached(self) -> dict[Limit, float]:
        """For each limit on quality, the best value of all trials."""
        metrics = [trial.user_attrs["metrics"] for trial in self.trials if trial.state == TrialState.COMPLETE]
        values = {limit: [values[limit.measure.name] for values in metrics if limit.measure.name in values]
                  for limit in self.limits}
        return {limit: (max if limit.at_least else min)(reached) for limit, reached in values.items() if reached}


def run(request: SearchRequest, progress: StageProgress) -> SearchResult:
    """Search until all trials are done.

    Raises:
        InputError: something about the request or the run is wrong.
        Stopped: the user stopped it; the same request resumes it.
    """
    folder = RunDir.open(request.run)
    with folder.locked():
        with progress.breakable():
            search = _begin(folder, request, progress)
        search.on_trial = FrontProgress(search, progress)
        try:
            _evaluate(search, request.cluster, progress.stop)
        except Stopped:
            _finish(search)
            raise Stopped(f"stopped after {search.done:,} trial{'s' * (search.done != 1)}; resume with: "
                          f"{Command('search', request.run)}") from None
        return _finish(search)


def _begin(folder: RunDir, request: SearchRequest, progress: StageProgress) -> Search:
    """The search of a request; all faults are found before an older search is archived."""
    old = None if request.fresh or not (folder.path / "search.yaml").is_file() else read_search(
        folder.path / "search.yaml")
    setup = SearchSetup(folder, _config(folder, request, old))
    suggestions = Suggestions(setup)
    if old is not None and (faults := list(changed(old, setup.config))):
        raise InputError(str(folder.path), faults)
    refuse_infeasible(setup.space, setup.prices, setup.limits)
    progress.show(suggestions.feasibility)
    suggestions.feasibility.check(setup.space.name)
    if setup.config.calibrate is not None:
        usable(setup.config.calibrate, setup)
    if old is None:
        suggestions.starts  # noqa: B018 - read now; the warm start may be the older search
    evaluations = Evaluations.of(folder.path, setup.conditions())
    if request.fresh:
        archive(folder, progress)
    calibration = calibrate(setup, evaluations, setup.evaluator)
    if calibration is not None:
        progress.note(calibration.summary())
    search = Search(setup, suggestions, evaluations, calibration)
    if request.more is not None:
        search.n_trials = search.done + request.more
    search.record.start(search.n_trials)
    if search.done:
        progress.note(f"resuming after {search.done:,} of {search.n_trials:,} trials")
    return search


def _config(folder: RunDir, request: SearchRequest, old: SearchConfig | None) -> SearchConfig:
    """The settings of the older search or the defaults, overridden by given ones."""
    if old is not None:
        return make_search({**old.model_dump(exclude={"inputs"}), **request.given}, str(Command("search")))
    if request.more is not None:
        raise InputError(str(folder.path), f"has not been searched; {Option('more')} resumes a search, "
                                           f"{Option('trials')} {request.more} starts one")
    latencies = [latency_on(device).name for device in request.settings.devices]
    quality = "loss" if request.settings.calibrate is None else CALIBRATED
    defaults = {"objectives": (quality, *(latencies or ("params",))),
                "warm_start": () if folder.config().init is None else (PRUNED,)}
    return make_search({**defaults, **request.given}, str(Command("search")))


def _evaluate(search: Search, cluster: SearchCluster | None, stop: Stop) -> None:
    if cluster is None:
        search.run(stop)
    else:
        from nas.stages.search.ray_backend import run_on_ray

        run_on_ray(search, stop, cluster)


def _finish(search: Search) -> SearchResult:
    """Write the fronts."""
    setup, trials = search.setup, search.record.finished
    entries = list(candidates(trials, setup.space, search.record.study.path))
    fronts = ParetoFronts(setup.run, setup.objectives, entries)
    fronts.write(trials)
    fronts.warn()
    return SearchResult(fronts, setup.limits, trials, search.done)


def archive(folder: RunDir, progress: StageProgress) -> None:
    """Archive the search of a run; its evaluations are kept."""
    there = [folder.path / name for name in FILES if (folder.path / name).is_file()]
    if not there:
        return
    number = next(n for n in range(1, 10**6) if not (folder.path / "searches" / str(n)).exists())
    aside = folder.path / "searches" / str(number)
    aside.mkdir(parents=True)
    for path in there:
        shutil.move(path, aside / path.name)
    progress.note(f"moved the older search to {aside}")


def read_fronts(request: ParetoRequest) -> ParetoFronts:
    """The fronts of a finished, stopped or running search; nothing is evaluated again.

    Raises:
        InputError: there is no search, or no such device.
    """
    folder = RunDir.open(request.run)
    searched = read_evaluated(folder, request.device)
    fronts = ParetoFronts(folder, searched.objectives, searched.entries, request.device)
    if searched.is_unchanged:
        with suppress(InputError), folder.locked():  # a running search writes it itself
            fronts.write(searched.trials)
    fronts.warn()
    return fronts
