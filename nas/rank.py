"""The stage `nas rank`: does the supernet rank architectures as training them from scratch does?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from nas import tasks
from nas import train as stage
from nas.ranking.plot import scatter
from nas.ranking.selection import Chosen, choose
from nas.ranking.statistics import Report, assess
from nas.run_dir import RunDir, write_json, write_text
from nas.scratch import read_result, train_plain
from nas.tasks.base import Prepared
from search_spaces import Architecture
from supernet.checkpoint import newest_step
from supernet.fit import Observer
from supernet.recipe import Recipe

REPEAT_EVERY = 4
"""One of so many architectures is trained from a second seed too, to see how much of a loss is luck."""


@dataclass(frozen=True)
class Training:
    """One architecture to train from scratch, and where."""

    arch: Architecture
    recipe: Recipe
    folder: Path


class Ranking:
    """The ranking report of a run. What it trains is kept in the run's folder and used again."""

    def __init__(self, run: RunDir, n: int, steps: int | None = None) -> None:
        config = run.config()
        self.run, self.folder = run, run.path.absolute() / "rank"  # workers may stand elsewhere
        self.prepared = stage.prepare(run)
        self.net = stage.load_supernet(run, self.prepared.space)
        self.recipe = from_scratch(config.training, steps or config.training.steps)
        self.supernet_steps = newest_step(run.path / "checkpoints") or config.training.steps
        self.chosen = choose(self.prepared.space, n, config.training.seed, self.prepared.space.context)

    def trainings(self) -> list[Training]:
        """What has to be trained, the second seeds last."""
        seed = self.recipe.seed
        return [self._training(each, seed) for each in self.chosen] + [
            self._training(each, seed + 1) for each in self.chosen[::REPEAT_EVERY]]

    def _training(self, chosen: Chosen, seed: int) -> Training:
        folder = self.folder / f"{chosen.arch.key[:16]}-steps{self.recipe.steps}-seed{seed}"
        return Training(chosen.arch, self.recipe.model_copy(update={"seed": seed}), folder)

    def inherited(self) -> Iterator[float]:
        """The validation loss of each chosen architecture on the supernet's weights, one after the other."""
        task = tasks.get(self.run.config().task)
        for each in self.chosen:
            yield stage.score(self.net, each.arch, task, self.prepared, self.recipe)["loss"]

    def table(self, inherited: list[float]) -> pd.DataFrame:
        """A row per architecture: its costs, what the supernet predicts, what training gave."""
        seed = self.recipe.seed
        rows = [{"key": each.arch.key, "group": each.group, **each.baselines, "inherited_loss": loss,
                 "trained_loss": self._loss(each, seed), "repeat_loss": self._loss(each, seed + 1)}
                for each, loss in zip(self.chosen, inherited)]
        return pd.DataFrame(rows)

    def _loss(self, chosen: Chosen, seed: int) -> float:
        metrics = read_result(self._training(chosen, seed).folder)
        return float("nan") if metrics is None else metrics["loss"]

    def write(self, frame: pd.DataFrame) -> Report:
        """Assess the table and write it, the figures and the picture."""
        report = replace(assess(frame), steps=self.recipe.steps, supernet_steps=self.supernet_steps)
        write_text(self.folder / "ranking.csv", frame.to_csv(index=False))
        write_json(self.folder / "ranking.json", {"schema_version": 1, **report.to_dict()})
        scatter(frame, report, self.folder / "ranking.svg")
        return report


def from_scratch(recipe: Recipe, steps: int) -> Recipe:
    """The supernet's recipe for one architecture; in fewer or more steps the learning rate takes the same course."""
    warmup = round(recipe.warmup * steps / recipe.steps)
    return recipe.model_copy(update={"steps": steps, "warmup": warmup, "evaluate_every": 0, "patience": 0,
                                     "layerdrop": 0.0})


def train_one(training: Training, task: str, prepared: Prepared, observer: Observer | None = None,
              stop: Callable[[], bool] = lambda: False) -> bool:
    """Train one architecture from scratch; false where it was stopped."""
    done = train_plain(training.arch, tasks.get(task), prepared, training.recipe, training.folder, observer, stop)
    return done is not None
