"""`nas watch`: a run as it goes on, in a terminal; reads files and nothing else, so it may run anywhere they are."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nas import tasks
from nas.progress import read_rows
from nas.run_dir import RunDir
from nas.search.config import read_search
from nas.search.front import as_costs, pareto
from nas.search.measures import Measure
from supernet.checkpoint import newest_step

WIDTH, HEIGHT = 64, 16
POINT, FRONT = "·", "●"


@dataclass(frozen=True)
class Training:
    """How far a training is."""

    step: int
    steps: int
    tokens_per_s: float
    seconds_left: float | None
    losses: dict[str, float]


@dataclass(frozen=True)
class Searching:
    """How far a search is, and the points of its first quality and its first cost, both to be minimised."""

    done: int
    trials: int
    failed: int
    measures: tuple[Measure, Measure]
    points: list[tuple[float, float]]


def training(run: RunDir) -> Training | None:
    """What `metrics.csv` and the newest checkpoint say, which come at steps of their own; None where neither does."""
    step, values = newest_step(run.path / "checkpoints"), dict[str, float]()
    for row in read_rows(run.path / "metrics.csv"):
        number, name, value = row.strip().split(",")
        step, values[name] = max(step, int(number)), float(value)
    if not values and not step:
        return None
    recipe = run.config().training
    rate = values.get("train/tokens_per_s", 0.0)
    tokens = recipe.batch_size * recipe.accumulate * run.space().context
    left = (recipe.steps - step) * tokens / rate if rate and step < recipe.steps else None
    losses = {name.rpartition("/")[2]: value for name, value in values.items() if "loss" in name}
    return Training(step, recipe.steps, rate, left, losses)


def searching(run: RunDir) -> Searching | None:
    """What `trials.csv` says; None where nothing was searched yet."""
    path = run.path / "trials.csv"
    if not path.is_file():
        return None
    config = read_search(run.path / "search.yaml")
    objectives = config.measures(tasks.get(run.config().task))
    quality = next((each for each in objectives if each.is_quality), objectives[0])
    cost = next((each for each in objectives if each != quality), quality)
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if None not in row.values()]  # the last one may be half written
    whole = [row for row in rows if row["state"] == "COMPLETE" and row["estimated"] == "0"]
    points = [(float(row[cost.name]), float(row[quality.name])) for row in whole]
    return Searching(sum(row["state"] != "PRUNED" for row in rows), config.trials,
                     sum(row["state"] == "FAIL" for row in rows), (cost, quality), points)


class Watch:
    """A run's state as something to look at; remembers when it saw how much, for the time left of a search."""

    def __init__(self, run: RunDir) -> None:
        self.run = run
        self.seen: tuple[float, int] | None = None

    def __call__(self) -> RenderableType:
        """How the run stands now."""
        parts: list[RenderableType] = [Text(str(self.run.path), style="bold")]
        trained, searched = training(self.run), searching(self.run)
        if trained is None:
            parts.append(Text("nothing was trained yet"))
        else:
            parts += _training_lines(trained)
        if searched is not None:
            parts += self._search_lines(searched)
        return Group(*parts)

    def _search_lines(self, found: Searching) -> list[RenderableType]:
        now = time.monotonic()
        self.seen = self.seen or (now, found.done)
        fresh, spent = found.done - self.seen[1], now - self.seen[0]
        left = (found.trials - found.done) * spent / fresh if fresh else None
        failed = f", {found.failed} failed" if found.failed else ""
        lines: list[RenderableType] = [_bar("search", found.done, found.trials, f"trials{failed}{_left(left)}")]
        if found.points:
            cost, quality = found.measures
            lines += [Text(quality.name), plot(found.points, [cost.maximise, quality.maximise]),
                      Text(f"{'':>{WIDTH - len(cost.name)}}{cost.name}"), Text(_ends(found))]
        return lines

    @property
    def finished(self) -> bool:
        """Whether nothing goes on any more: everything that was asked for is done."""
        trained, searched = training(self.run), searching(self.run)
        return bool(trained and self.run.weights_path.is_file() and
                    (searched is None or searched.done >= searched.trials))


def _training_lines(found: Training) -> list[RenderableType]:
    losses = ", ".join(f"{name.removeprefix('loss_')} {value:.3f}" for name, value in found.losses.items())
    rate = f", {found.tokens_per_s:,.0f} tokens/s" if found.tokens_per_s else ""
    bar = _bar("training", found.step, found.steps, f"steps{rate}{_left(found.seconds_left)}")
    return [bar, Text(f"losses: {losses}" if losses else "no losses were logged yet")]


def _bar(name: str, done: int, total: int, says: str) -> RenderableType:
    made = Table.grid(padding=(0, 1))
    made.add_row(name, ProgressBar(total=total, completed=done, width=24), f"{done:,} of {total:,} {says}")
    return made


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f", {timedelta(seconds=round(seconds))} left"


def _ends(found: Searching) -> str:
    cost, quality = found.measures
    return ", ".join(f"{measure.name} from {measure.show(min(values))} to {measure.show(max(values))}"
                     for measure, values in zip((cost, quality), zip(*found.points)))


def plot(points: Sequence[tuple[float, float]], maximise: Sequence[bool]) -> Text:
    """Points as text, the front of them marked; the first direction goes right, the second up."""
    front = set(pareto(as_costs(points, maximise)).tolist())
    low = [min(values) for values in zip(*points)]
    size = [max(values) - least or 1.0 for values, least in zip(zip(*points), low)]
    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    for i in sorted(range(len(points)), key=lambda i: i in front):  # the front over the rest
        column, row = (round((points[i][k] - low[k]) / size[k] * (cells - 1)) for k, cells in ((0, WIDTH), (1, HEIGHT)))
        grid[HEIGHT - 1 - row][column] = FRONT if i in front else POINT
    return Text("\n".join("│" + "".join(line) for line in grid) + "\n└" + "─" * WIDTH)
