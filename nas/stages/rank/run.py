"""The stage `rank`: compares the supernet's ranking with training from scratch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd

from nas import tasks
from nas.core import evaluation
from nas.core.progress import ProgressTask, StageProgress
from nas.core.rankings import read_result
from nas.core.run_dir import RunDir, write_json, write_text
from nas.core.stopping import Stopped
from nas.stages.rank.plot import scatter
from nas.stages.rank.request import RankRequest
from nas.stages.rank.scratch import train_plain
from nas.stages.rank.selection import Candidate, choose
from nas.stages.rank.statistics import RankingReport, assess
from nas.stages.rank.zero_cost import zero_cost
from nas.tasks.base import Task
from search_spaces import Architecture
from supernet.train.checkpoint import newest_step
from supernet.train.fit import Silent
from supernet.train.recipe import Recipe
from supernet.train.step import StepReport

REPEAT_EVERY = 4
"""Every n-th architecture is also trained with a second seed, to measure the noise."""


def run(request: RankRequest, progress: StageProgress) -> RankingReport:
    """Train architectures from scratch and compare. Raises InputError, Stopped; finished training runs are reused."""
    folder = RunDir.open(request.run)
    with folder.locked():
        progress.note(f"choosing {request.n} architectures ...")
        with progress.breakable():
            ranking = Ranking(folder, request.n, request.steps)
        try:
            _train(ranking, request, progress)
            inherited = _evaluate(ranking, progress)
        except Stopped:
            raise Stopped(f"stopped; resume with: {request.command()}") from None
        return ranking.write(ranking.table(inherited))


def _train(ranking: Ranking, request: RankRequest, progress: StageProgress) -> None:
    trainings, steps = ranking.trainings(), ranking.recipe.steps
    if request.workers == 1:
        task = progress.task(f"training {len(trainings)} from scratch", len(trainings) * steps)
        for i, training in enumerate(trainings):
            train_plain(*training, ranking.prepared, _Steps(task, i * steps), progress.stop)
            task.move_to((i + 1) * steps)
        return
    from nas.core.cluster import cluster, in_parallel
    from nas.core.ray_nodes import Nodes

    with cluster(request.ray, request.workers):
        task = progress.task(f"training {len(trainings)} from scratch", len(trainings) * steps)
        on_gpu, nodes = ranking.recipe.device != "cpu", Nodes(ranking.run.path, "ranking")
        for _ in in_parallel(train_plain, trainings, ranking.prepared, request.workers, on_gpu, progress.stop, nodes):
            task.move(steps)
    if progress.stop():
        raise Stopped


def _evaluate(ranking: Ranking, progress: StageProgress) -> list[float]:
    """The inherited losses."""
    task, losses = progress.task("evaluating in the supernet", len(ranking.chosen)), []
    for loss in ranking.inherited():
        if progress.stop():
            raise Stopped
        losses.append(loss)
        task.move()
    return losses


class _Steps(Silent):
    """Advances a task that counts the steps of many training runs."""

    def __init__(self, task: ProgressTask, before: int) -> None:
        self.task, self.before = task, before

    def on_step(self, report: StepReport) -> None:
        """See Observer."""
        self.task.move_to(self.before + report.step + 1)


class Ranking:
    """The ranking report of a run. Trained models are kept in the run's folder and reused."""

    def __init__(self, run: RunDir, n: int, steps: int | None = None) -> None:
        config = run.config()
        self.run, self.folder = run, run.path.absolute() / "rank"  # workers may have another working directory
        self.task = tasks.get(config.task)
        self.prepared = evaluation.prepare(run)
        self.net = evaluation.load_supernet(run, self.prepared.space)
        self.recipe = from_scratch(config.training, steps or config.training.steps)
        self.supernet_steps = newest_step(run.path / "checkpoints") or config.training.steps
        self.chosen = choose(self.prepared.space, n, config.training.seed, self.prepared.space.context)

    def trainings(self) -> list[tuple[Architecture, Recipe, Path, Task]]:
        """What has to be trained, the second seeds last, as `train_plain` takes it."""
        seed, again = self.recipe.seed, self.chosen[::REPEAT_EVERY]
        return [(candidate.arch, self.recipe.model_copy(update={"seed": number}), self._place(candidate, number),
                 self.task)
                for number, some in ((seed, self.chosen), (seed + 1, again)) for candidate in some]

    def _place(self, chosen: Candidate, seed: int) -> Path:
        return self.folder / f"{chosen.arch.key[:16]}-steps{self.recipe.steps}-seed{seed}"

    def inherited(self) -> Iterator[float]:
        """The validation loss of each chosen architecture on the supernet's weights, one after the other."""
        for candidate in self.chosen:
            yield evaluation.score(self.net, candidate.arch, self.task, self.prepared, self.recipe)["loss"]

    def table(self, inherited: list[float]) -> pd.DataFrame:
        """A row per architecture: costs, inherited loss and trained loss."""
        seed = self.recipe.seed
        batch = self.prepared.train.batch(0, self.recipe.batch_size, seed)
        rows = [{"key": candidate.arch.key, "group": candidate.group, **candidate.baselines,
                 **zero_cost(candidate.arch, batch, seed), "inherited_loss": loss,
                 "trained_loss": self._loss(candidate, seed), "repeat_loss": self._loss(candidate, seed + 1)}
                for candidate, loss in zip(self.chosen, inherited)]
        return pd.DataFrame(rows)

    def _loss(self, chosen: Candidate, seed: int) -> float:
        metrics = read_result(self._place(chosen, seed))
        return float("nan") if metrics is None else metrics["loss"]

    def write(self, frame: pd.DataFrame) -> RankingReport:
        """Assess the table and write it, the figures and the plot."""
        report = replace(assess(frame), steps=self.recipe.steps, supernet_steps=self.supernet_steps)
        write_text(self.folder / "ranking.csv", frame.to_csv(index=False))
        write_json(self.folder / "ranking.json", {"schema_version": 1, **report.to_dict()})
        scatter(frame, report, self.folder / "ranking.svg")
        return report


def from_scratch(recipe: Recipe, steps: int) -> Recipe:
    """The supernet's recipe for one architecture; the learning rate schedule is scaled to the number of steps."""
    warmup = round(recipe.warmup * steps / recipe.steps)
    return recipe.model_copy(update={"steps": steps, "warmup": warmup, "evaluate_every": 0, "patience": 0,
                                     "layerdrop": 0.0})
