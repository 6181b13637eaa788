"""The status of a run, read from its files only, so it works wherever they are accessible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nas import tasks
from nas.core.measures import Measure
from nas.core.metrics import read_rows
from nas.core.progress import StageProgress
from nas.core.run_dir import RunDir
from nas.core.search_config import read_search
from nas.core.trials import UNMEASURED
from nas.stages.watch.request import WatchRequest
from search_spaces.errors import Command
from search_spaces.files.reading import csv_rows, number, read_text
from supernet.train.checkpoint import newest_step

REMEDY = f"{Command('search')} rewrites it"


@dataclass(frozen=True)
class TrainingStatus:
    """The progress of a training."""

    step: int
    steps: int
    tokens_per_s: float
    seconds_left: float | None
    losses: dict[str, float]


@dataclass(frozen=True)
class SearchStatus:
    """The progress of a search, and its points in the first quality and the first cost.

    Args:
        unmeasured: whether some of the costs are based on interpolated or estimated prices.
    """

    done: int
    trials: int
    failed: int
    measures: tuple[Measure, Measure]
    points: list[tuple[float, float]]
    unmeasured: bool = False


def training_status(run: RunDir) -> TrainingStatus | None:
    """The status from `metrics.csv` and the newest checkpoint; None if neither exists."""
    step, values = newest_step(run.path / "checkpoints"), dict[str, float]()
    for row in read_rows(run.path / "metrics.csv"):
        step, values[row.metric] = max(step, row.step), row.value
    if not values and not step:
        return None
    recipe = run.config().training
    rate = values.get("train/tokens_per_s", 0.0)
    tokens = recipe.batch_size * recipe.accumulate * run.space().context
    left = (recipe.steps - step) * tokens / rate if rate and step < recipe.steps else None
    losses = {name.rpartition("/")[2]: value for name, value in values.items() if "loss" in name}
    return TrainingStatus(step, recipe.steps, rate, left, losses)


def search_status(run: RunDir) -> SearchStatus | None:
    """The status from `trials.csv`; None if there is no search yet."""
    path = run.path / "trials.csv"
    if not path.is_file():
        return None
    config = read_search(run.path / "search.yaml")
    objectives = config.measures(tasks.get(run.config().task))
    quality = next((objective for objective in objectives if objective.is_quality), objectives[0])
    cost = next((objective for objective in objectives if objective != quality), quality)
    rows = _trials(path, (cost.name, quality.name))
    whole = [row for row in rows if row["state"] == "COMPLETE" and row["estimated"] == "0"]
    share = f"{UNMEASURED}:{cost.name}"
    points = [(number(row[cost.name], f"{path}, {cost.name}", REMEDY),
               number(row[quality.name], f"{path}, {quality.name}", REMEDY)) for row in whole]
    return SearchStatus(sum(row["state"] != "PRUNED" for row in rows), config.trials,
                     sum(row["state"] == "FAIL" for row in rows), (cost, quality),
                     [point for point in points if all(map(math.isfinite, point))],
                     any(number(row.get(share) or 0, f"{path}, {share}", REMEDY) > 0 for row in whole))


def _trials(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of `trials.csv`; an incomplete last row is ignored."""
    text = read_text(path, REMEDY)
    cut = text[: text.rfind("\n") + 1]
    return [row for _, row in csv_rows(cut, str(path), ("state", "estimated", *columns), REMEDY)]


@dataclass(frozen=True)
class RunStatus:
    """The status of a run; stages that have not started are None.

    Args:
        finished: whether all requested work is done.
    """

    path: Path
    training: TrainingStatus | None
    search: SearchStatus | None
    finished: bool


def run(request: WatchRequest, progress: StageProgress) -> RunStatus:
    """The current status of a run. Raises InputError if there is none, or a file is damaged."""
    return run_status(RunDir.open(request.run))


def run_status(run: RunDir) -> RunStatus:
    """The current status of the run. Raises InputError if a file is damaged."""
    training, search = training_status(run), search_status(run)
    finished = training is not None and run.weights_path.is_file()
    return RunStatus(run.path, training, search, finished and (search is None or search.done >= search.trials))
