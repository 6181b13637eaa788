"""Data from trainings: curves, subnets, the ranking report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from nas.core.metrics import read_rows
from nas.core.names import subnets_in
from nas.core.run_dir import RunDir
from nas.core.subnet import Subnet
from nas.stages.report.judged import seen
from nas.stages.report.shown import Curve, Picked, Ranked, SubnetStep
from search_spaces.errors import Command
from search_spaces.files.reading import checked, number, read_csv, read_json, read_table
from supernet.train.recipe import Recipe

MOST = 400
"""Maximum number of points of a curve; more are averaged."""
CURVES = ("train/loss", "valid/")
"""Prefixes of the metrics that are drawn."""


def read_picked(run: RunDir) -> list[Picked]:
    """The run's subnets by name. Raises InputError if one is damaged."""
    return [_picked(Subnet.open(str(folder))) for folder in subnets_in(run.path)]


def _picked(subnet: Subnet) -> Picked:
    facts = subnet.facts
    steps = [SubnetStep(step.stage, _settings_text(step.settings), step.metrics) for step in facts.made]
    measured = {name: (latency.predicted_ms, latency.measured_ms) for name, latency in facts.measured.items()}
    last = facts.made[-1]
    trained = last.settings.get("init", "") if last.stage == "retrain" else ""
    shares = {**facts.unmeasured_share,
              **{name: latency.unmeasured_share for name, latency in facts.measured.items()}}
    return Picked(subnet.path.name, subnet.arch, steps, facts.costs, measured, tuple(facts.exports), shares, trained)


def _settings_text(settings: dict[str, Any]) -> str:
    """Settings as text, without empty ones."""
    def shown(value: Any) -> str:
        return " and ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)

    return ", ".join(f"{name.replace('_', ' ')} {shown(value)}" for name, value in settings.items()
                     if name != "digest" and not isinstance(value, dict) and value not in (None, "", False, [], ()))


def read_curves(run: RunDir, size: int | None) -> list[Curve]:
    """The curves of the supernet, and of every retraining by its folder.

    Args:
        size: how many examples the validation split has, if that is known.

    Raises:
        InputError: a file is damaged.
    """
    trainings = [_CurveSource(run.path, "", "", seen(run.config().training.evaluate_limit, size))]
    trainings += _retrainings(run.path / "retraining", size)
    return [curve for training in trainings for curve in _curves(training)]


class _Retraining(BaseModel):
    """The fields that are read from a retraining's `settings.json`."""

    out: str
    training: Recipe


@dataclass(frozen=True)
class _CurveSource:
    """The files of a training, and common data of its curves."""

    folder: Path
    name: str
    model: str
    examples: int | None


def _retrainings(folder: Path, size: int | None) -> list[_CurveSource]:
    """By folder; retrainings of the same model are distinguished by their names."""
    retrainings = []
    for path in sorted(path.parent for path in folder.glob("*/metrics.csv")):
        settings, remedy = path / "settings.json", f"delete {path} to start again"
        config = checked(_Retraining, read_json(settings, remedy), str(settings), remedy)
        retrainings.append(_CurveSource(path, path.name, Path(config.out).name,
                                        seen(config.training.evaluate_limit, size)))
    models = Counter(source.model for source in retrainings)
    return [source if models[source.model] == 1 else replace(source, model=f"{source.model} ({source.name})")
            for source in retrainings]


def _curves(training: _CurveSource) -> Iterator[Curve]:
    path = training.folder / "metrics.csv"
    if not path.is_file():
        return
    series: dict[str, list[tuple[int, float]]] = {}
    for row in read_rows(path):
        if row.metric.startswith(CURVES):
            series.setdefault(row.metric, []).append((row.step, row.value))
    for metric, points in series.items():
        examples = training.examples if metric.startswith("valid/") else None
        yield Curve(training.name, metric, *_thinned(points), training.model, examples)


def _thinned(points: list[tuple[int, float]]) -> tuple[list[int], list[float | None]]:
    """Averaged points: the last step and the mean value of each group; values that are not finite are skipped."""
    size = math.ceil(len(points) / MOST)
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    means = [sum(value for _, value in group) / len(group) for group in groups]
    return [group[-1][0] for group in groups], [mean if math.isfinite(mean) else None for mean in means]


def read_ranked(run: RunDir) -> Ranked | None:
    """The ranking report, if there is one. Raises InputError if it is damaged."""
    table, figures = run.path / "rank" / "ranking.csv", run.path / "rank" / "ranking.json"
    if not table.is_file() or not figures.is_file():
        return None
    remedy = f"run {Command('rank', run.name)} again"
    data = read_table(figures, remedy)
    checked(_Ranking, data, str(figures), remedy)
    rows = [{"key": row["key"], "group": row["group"],
             **{name: _number(row[name], f"{table}, line {line}", remedy) for name in NUMBERS}}
            for line, row in read_csv(table, ("key", "group", *NUMBERS), remedy)]
    return Ranked(rows, data)


class _Figure(BaseModel):
    """How well one predictor ranks: an entry of `ranking.json`."""

    name: str
    tau: float | None
    low: float | None
    high: float | None


class _Comparison(BaseModel):
    """The fields of each part of `ranking.json`."""

    n: int
    figures: tuple[_Figure, ...]


class _Ranking(BaseModel):
    """The fields that are read from `ranking.json`."""

    overall: _Comparison
    band: _Comparison
    noise: dict[str, float | None] | None = None
    steps: int | None = None
    supernet_steps: int | None = None


NUMBERS = ("inherited_loss", "trained_loss", "params", "macs")


def _number(text: str, where: str, remedy: str) -> float | None:
    value = number(text, where, remedy) if text else math.nan
    return value if math.isfinite(value) else None
