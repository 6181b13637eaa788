"""The results of a run's search, read from its journal; nothing is evaluated or priced again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from optuna.trial import FrozenTrial, TrialState

from nas.core.fronts import front
from nas.core.measures import Measure, parse_measure
from nas.core.run_dir import RunDir
from nas.core.search_config import read_search
from nas.core.study import read_trials
from nas.core.trials import UNMEASURED, hypervolumes, is_feasible
from nas.stages.report.importance import importance
from nas.stages.report.judged import seen, split_size
from nas.stages.report.shown import Point, Searched
from nas.tasks.base import Task
from search_spaces import InputError, SearchSpace
from search_spaces.published.catalogue import load_published
from search_spaces.published.catalogue import names as published_names


def read_searched(run: RunDir, space: SearchSpace, task: Task) -> Searched | None:
    """The results of the search so far, also while it runs; None if nothing was evaluated.

    Raises:
        InputError: a file of the search is damaged.
    """
    if not (run.path / "search.yaml").is_file() or not (run.path / "study.journal").is_file():
        return None
    config = read_search(run.path / "search.yaml")
    objectives = config.measures(task)
    trials = read_trials(run.path / "study.journal", objectives, space)
    points = list(_points(trials, space, run))
    if not points:
        return None
    qualities, costs = _measures(points, objectives, config.metrics(task))
    whole = [point for point in points if point.allowed and not point.estimated]
    places = {point.arch.key: i for i, point in enumerate(points)}
    fronts = {(quality.name, cost.name): [places[point.arch.key] for point in front(whole, (quality, cost))]
              for quality in qualities for cost in costs}
    done = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    return Searched(
        points=points, qualities=qualities, costs=costs, objectives=objectives,
        limits=tuple(map(str, config.limits(task))),
        fronts=fronts, hypervolume=hypervolumes(trials, objectives), counts=_counts(trials, points),
        date=max((f"{trial.datetime_complete:%Y-%m-%d}" for trial in done if trial.datetime_complete), default=""),
        importance=importance(qualities[0].name, [trial.params for trial in done],
                              [trial.user_attrs["metrics"][qualities[0].name] for trial in done], space.genes),
        examples=seen(config.limit, split_size(run, space)))


def _points(trials: Sequence[FrozenTrial], space: SearchSpace, run: RunDir) -> Iterator[Point]:
    """Each architecture once: fully evaluated if possible, else estimated."""
    named = marks(space)
    by_key: dict[str, FrozenTrial] = {}
    for trial in trials:
        if trial.state == TrialState.COMPLETE:
            before = by_key.get(trial.user_attrs["key"])
            if before is None or (before.user_attrs.get("interval") and not trial.user_attrs.get("interval")):
                by_key[trial.user_attrs["key"]] = trial
    for key, trial in by_key.items():
        arch, known = space.decode(trial.params), trial.user_attrs
        if arch.key != key or not isinstance(known.get("metrics"), dict):
            raise InputError(str(run.path / "study.journal"), f"trial {trial.number} does not fit the run's space "
                                                              "and data; restore the original files")
        yield Point(arch, dict(known["metrics"]), dict(known["costs"]), dict(known.get(UNMEASURED, {})),
                    trial=trial.number, estimated=bool(known.get("interval")), allowed=is_feasible(trial),
                    mark=named.get(key, ""))


def marks(space: SearchSpace) -> dict[str, str]:
    """Keys of the smallest and largest architectures and of published ones in the space -> their labels."""
    labels: dict[str, list[str]] = {space.smallest().key: ["smallest"]}
    labels.setdefault(space.largest().key, []).append("largest")
    for name in published_names():
        arch = load_published(name)
        if arch.family != space.family or arch.width not in space.settings["width"].choices():
            continue
        try:  # with vocabulary, classes and context of this task, which do not define the architecture
            same = replace(arch, vocab_size=space.vocab_size, context=space.context,
                           n_classes=space.n_classes if arch.n_classes else 0)
        except InputError:
            continue
        if same in space:
            labels.setdefault(same.key, []).append(name)
    return {key: ", ".join(names) for key, names in labels.items()}


def _measures(points: Sequence[Point], objectives: Sequence[Measure],
              known: Mapping[str, bool]) -> tuple[list[Measure], list[Measure]]:
    """The qualities and the costs that every point has, objectives first."""
    metrics = [Measure(name, maximise=more) for name, more in known.items()
               if all(name in point.metrics for point in points)]
    costs = [parse_measure(name, known) for name in points[0].costs
             if all(name in point.costs for point in points)]

    def first(measures: list[Measure]) -> list[Measure]:
        order = {measure: i for i, measure in enumerate(objectives)}
        return sorted(measures, key=lambda measure: order.get(measure, len(order)))

    return first(metrics), first(costs)


def _counts(trials: Sequence[FrozenTrial], points: Sequence[Point]) -> dict[str, int]:
    states = [trial.state for trial in trials]
    return {"evaluated": states.count(TrialState.COMPLETE), "failed": states.count(TrialState.FAIL),
            "architectures": len(points), "estimated": sum(point.estimated for point in points)}
