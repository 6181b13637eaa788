"""`nas rank`: train the chosen architectures, here or on a cluster, and say how well the supernet ranks them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from nas.bar import WorkBar
from nas.progress import interruptible
from nas.rank import Ranking, train_one
from nas.ranking.statistics import INHERITED, WORDS, Comparison, Report
from nas.run_dir import RunDir
from nas.tables import table
from supernet.fit import Silent
from supernet.training import StepReport


def rank(run: str, n: int, steps: int | None, workers: int, address: str, console: Console) -> Report | None:
    """The report; None where it was stopped before the end. Raises InputError."""
    folder = RunDir.open(run)
    with folder.locked():
        console.print(f"choosing {n} architectures ...")
        ranking = Ranking(folder, n, steps)
        with interruptible(console) as stop, WorkBar(console) as bar:
            inherited = _evaluate(ranking, bar, stop) if _train(ranking, bar, workers, address, stop) else None
        if inherited is None:
            more = f" --steps {steps}" if steps else ""
            on_ray = f" --workers {workers} --ray {address}" if workers > 1 else ""
            console.print(f"stopped; go on with the same command: nas rank {run} -n {n}{more}{on_ray}", markup=False)
            return None
        return ranking.write(ranking.table(inherited))


def _train(ranking: Ranking, bar: WorkBar, workers: int, address: str, stop: Callable[[], bool]) -> bool:
    trainings, kind = ranking.trainings(), ranking.run.config().task
    task = bar.add(f"training {len(trainings)} from scratch", len(trainings) * ranking.recipe.steps)
    if workers == 1:
        for i, training in enumerate(trainings):
            if not train_one(training, kind, ranking.prepared, _Steps(bar, task, i * training.recipe.steps), stop):
                return False
            bar.move_to(task, (i + 1) * training.recipe.steps)
        return True
    from nas.cluster import cluster, in_parallel

    with cluster(address, workers):
        calls, on_gpu = [(training, kind) for training in trainings], ranking.recipe.device != "cpu"
        for _ in in_parallel(train_one, calls, ranking.prepared, workers, on_gpu, stop):
            bar.move(task, ranking.recipe.steps)
    return not stop()


def _evaluate(ranking: Ranking, bar: WorkBar, stop: Callable[[], bool]) -> list[float] | None:
    """The inherited losses; None where it was stopped."""
    task, found = bar.add("evaluating in the supernet", len(ranking.chosen)), []
    for loss in ranking.inherited():
        if stop():
            return None
        found.append(loss)
        bar.move(task)
    return found


class _Steps(Silent):
    """Moves a bar that counts the steps of many trainings."""

    def __init__(self, bar: WorkBar, task: Any, before: int) -> None:
        self.bar, self.task, self.before = bar, task, before

    def on_step(self, report: StepReport) -> None:
        """Move on."""
        self.bar.move_to(self.task, self.before + report.step + 1)


def report_table(report: Report) -> RenderableType:
    """The report for a terminal: a table for all architectures, one for those of equal cost, and what follows."""
    parts: list[RenderableType] = [
        Text(f"each was trained from scratch for {report.steps:,} steps, the supernet for {report.supernet_steps:,}")]
    for title, found in (("all", report.overall), ("of nearly equal MACs", report.band)):
        heading = Text(f"{found.n} architectures, {title}", style="bold")
        parts += [heading, _figures(found), *_sentences(found), Text("")]
    if report.noise:
        parts.append(Text(f"two trainings that differ in the seed alone differ by a standard deviation of "
                          f"{report.noise.sigma:.4f} nats each ({report.noise.repeats} pairs)"))
    if report.dropped:
        parts.append(Text(f"{report.dropped} architectures are left out: a loss was not finite"))
    return Group(*parts)


def _figures(found: Comparison) -> RenderableType:
    made = table("ranked by", "Kendall tau", "95 % interval", "Spearman", "supernet better by", "95 % interval ",
                 right=("Kendall tau", "95 % interval", "Spearman", "supernet better by", "95 % interval "))
    better = {difference.baseline: difference for difference in found.differences}
    for figure in found.figures:
        other = better.get(figure.name)
        more = (_number(other.tau), _range(other.low, other.high)) if other else ("", "")
        made.add_row(WORDS[figure.name], _number(figure.tau), _range(figure.low, figure.high),
                     _number(figure.spearman), *more)
    return made


def _sentences(found: Comparison) -> list[Text]:
    said = []
    if found.ceiling:
        said.append(Text(f"a perfect predictor would reach {found.ceiling.perfect:.2f} "
                         f"({_range(found.ceiling.low, found.ceiling.high)}): the rest is luck of the seed"))
    if found.figure(INHERITED).tau is None:
        return [Text("too few of them, or too alike, to rank")]
    equal = [WORDS[each.baseline] for each in found.differences if each.tau is None]
    if equal:
        said.append(Text(f"the same for all, so no rival: {', '.join(equal)}"))
    unbeaten = [WORDS[each.baseline] for each in found.differences if each.tau is not None and not each.above_zero]
    if unbeaten:
        said.append(Text(f"not shown to rank better than: {', '.join(unbeaten)}", style="yellow"))
    else:
        said.append(Text("the supernet ranks better than every rival, with 95 % confidence", style="green"))
    return said


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _range(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.2f} to {high:.2f}"
