"""Shows the status of a run in a terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nas.core.marks import LEGEND
from nas.core.pareto import as_costs, pareto
from nas.core.progress import StageProgress
from nas.stages.watch.request import WatchRequest
from nas.stages.watch.run import SearchStatus, TrainingStatus, run

WIDTH, HEIGHT = 64, 16
POINT, FRONT = "·", "●"


class Watch:
    """A live view of a run; records progress over time to estimate the remaining time of a search."""

    def __init__(self, request: WatchRequest) -> None:
        self.request = request
        self.finished = False
        """Whether all work is done."""
        self.seen: tuple[float, int] | None = None

    def __call__(self) -> RenderableType:
        """The current status of the run."""
        status = run(self.request, StageProgress())
        self.finished = status.finished
        parts: list[RenderableType] = [Text(str(status.path), style="bold")]
        parts += [Text("no training yet")] if status.training is None else _training_lines(status.training)
        parts += [] if status.search is None else self._search_lines(status.search)
        return Group(*parts)

    def _search_lines(self, status: SearchStatus) -> list[RenderableType]:
        now = time.monotonic()
        self.seen = self.seen or (now, status.done)
        fresh, spent = status.done - self.seen[1], now - self.seen[0]
        left = (status.trials - status.done) * spent / fresh if fresh else None
        failed = f", {status.failed} failed" if status.failed else ""
        lines: list[RenderableType] = [_bar("search", status.done, status.trials, f"trials{failed}{_left(left)}")]
        if status.points:
            cost, quality = status.measures
            lines += [Text(quality.name), plot(status.points, [cost.maximise, quality.maximise]),
                      Text(f"{'':>{WIDTH - len(cost.name)}}{cost.name}"), Text(_ends(status))]
            lines += [Text(LEGEND, style="yellow")] if status.unmeasured else []
        return lines


def _training_lines(status: TrainingStatus) -> list[RenderableType]:
    losses = ", ".join(f"{name.removeprefix('loss_')} {value:.3f}" for name, value in status.losses.items())
    rate = f", {status.tokens_per_s:,.0f} tokens/s" if status.tokens_per_s else ""
    bar = _bar("training", status.step, status.steps, f"steps{rate}{_left(status.seconds_left)}")
    return [bar, Text(f"losses: {losses}" if losses else "no losses logged yet")]


def _bar(name: str, done: int, total: int, text: str) -> RenderableType:
    result = Table.grid(padding=(0, 1))
    result.add_row(name, ProgressBar(total=total, completed=done, width=24), f"{done:,} of {total:,} {text}")
    return result


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f", {timedelta(seconds=round(seconds))} left"


def _ends(status: SearchStatus) -> str:
    cost, quality = status.measures
    return ", ".join(f"{measure.name} from {measure.show(min(values), mark)} to {measure.show(max(values), mark)}"
                     for measure, values, mark in zip((cost, quality), zip(*status.points), (status.unmeasured, 0.0)))


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
