"""What trainings left behind: curves, subnets, the ranking report."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nas.progress import HEADER, read_rows
from nas.report.judged import seen
from nas.report.shown import Curve, Picked, Ranked, Step
from nas.retrain import SETTINGS
from nas.retrain_config import read_config
from nas.run_dir import RunDir
from nas.subnet import Subnet
from search_spaces import InputError
from supernet.pretrained import ARCHITECTURE

MOST = 400
"""Points of a curve; more are averaged, as many as make one point."""
CURVES = ("train/loss", "valid/")
"""What the names of metrics that are drawn begin with."""


def read_picked(run: RunDir) -> list[Picked]:
    """The run's subnets by name. Raises InputError where one is damaged."""
    folders = sorted(path.parent for path in (run.path / "subnets").glob(f"*/{ARCHITECTURE}"))
    return [_picked(Subnet.open(str(folder))) for folder in folders]


def _picked(subnet: Subnet) -> Picked:
    facts = subnet.facts
    steps = [Step(made.stage, _said(made.settings), made.metrics) for made in facts.made]
    measured = {name: (each.predicted_ms, each.measured_ms) for name, each in facts.measured.items()}
    last = facts.made[-1]
    trained = last.settings.get("init", "") if last.stage == "retrain" else ""
    return Picked(subnet.path.name, subnet.arch, steps, facts.costs, measured, tuple(facts.exports), trained)


def _said(settings: dict[str, Any]) -> str:
    """Settings for a reader, those that say nothing left out."""
    def told(value: Any) -> str:
        return " and ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)

    return ", ".join(f"{name.replace('_', ' ')} {told(value)}" for name, value in settings.items()
                     if name != "digest" and not isinstance(value, dict) and value not in (None, "", False, [], ()))


def read_curves(run: RunDir, size: int | None) -> list[Curve]:
    """The curves of the supernet, and of every retraining by its folder.

    Args:
        size: how many examples the validation split has, if that is known.

    Raises:
        InputError: a file is damaged.
    """
    trainings = [_Training(run.path, "", "", seen(run.config().training.evaluate_limit, size))]
    trainings += _retrainings(run.path / "retraining", size)
    return [curve for training in trainings for curve in _curves(training)]


@dataclass(frozen=True)
class _Training:
    """Where a training left its files, and what all its curves share."""

    folder: Path
    name: str
    model: str
    examples: int | None


def _retrainings(folder: Path, size: int | None) -> list[_Training]:
    """By folder; two that made the same model, one after the other, are told apart by their own names."""
    found = []
    for path in sorted(path.parent for path in folder.glob("*/metrics.csv")):
        config = read_config(path / SETTINGS)
        found.append(_Training(path, path.name, Path(config.out).name, seen(config.training.evaluate_limit, size)))
    models = Counter(each.model for each in found)
    return [each if models[each.model] == 1 else replace(each, model=f"{each.model} ({each.name})") for each in found]


def _curves(training: _Training) -> Iterator[Curve]:
    path = training.folder / "metrics.csv"
    if not path.is_file():
        return
    series: dict[str, list[tuple[int, float]]] = {}
    try:
        if not path.read_text("utf-8").startswith(HEADER):
            raise ValueError
        for row in read_rows(path):
            step, metric, value = row.split(",")
            if metric.startswith(CURVES):
                series.setdefault(metric, []).append((int(step), float(value)))
    except ValueError:
        raise InputError(str(path), "is damaged; put it back, or delete it: a report is made without curves") from None
    for metric, points in series.items():
        examples = training.examples if metric.startswith("valid/") else None
        yield Curve(training.name, metric, *_thinned(points), training.model, examples)


def _thinned(points: list[tuple[int, float]]) -> tuple[list[int], list[float | None]]:
    """The last step and the mean value of as many points as make one; what is not finite has none."""
    size = math.ceil(len(points) / MOST)
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    means = [sum(value for _, value in group) / len(group) for group in groups]
    return [group[-1][0] for group in groups], [mean if math.isfinite(mean) else None for mean in means]


def read_ranked(run: RunDir) -> Ranked | None:
    """The ranking report, if there is one. Raises InputError where it is damaged."""
    table, figures = run.path / "rank" / "ranking.csv", run.path / "rank" / "ranking.json"
    if not table.is_file() or not figures.is_file():
        return None
    try:
        data: dict[str, Any] = json.loads(figures.read_bytes())
        with table.open(encoding="utf-8", newline="") as file:
            rows = [{"key": row["key"], "group": row["group"], **{name: _number(row[name]) for name in NUMBERS}}
                    for row in csv.DictReader(file)]
        [figure["name"] for part in ("overall", "band") for figure in data[part]["figures"]]
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        raise InputError(str(table.parent), f"holds a damaged report; run nas rank {run.name} again") from None
    return Ranked(rows, data)


NUMBERS = ("inherited_loss", "trained_loss", "params", "macs")


def _number(text: str) -> float | None:
    value = float(text) if text else math.nan
    return value if math.isfinite(value) else None
