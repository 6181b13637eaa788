"""Trains plain models from scratch, as the reference for inherited losses."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import torch

from nas.core.evaluation import evaluator, place
from nas.core.rankings import RESULT, read_result
from nas.core.run_dir import write_json, write_text
from nas.core.stopping import Stop, Stopped
from nas.tasks.base import Prepared, Task
from search_spaces import Architecture
from search_spaces.files import ARCHITECTURE
from supernet import Transformer
from supernet.train.checkpoint import Checkpoints
from supernet.train.fit import Observer, enough_memory, fit, less_memory
from supernet.train.recipe import Recipe
from supernet.train.step import DivergedError, Trainer
from supernet.train.strategy import Fixed

SCHEMA_VERSION = 1


def train_plain(arch: Architecture, recipe: Recipe, folder: Path, task: Task, prepared: Prepared,
                observer: Observer | None = None, stop: Stop = lambda: False) -> dict[str, float]:
    """Train an architecture from scratch; returns its metrics on the whole validation split.

    A diverged training has a loss of NaN, so that others continue. A finished one is read from its folder, an
    interrupted one resumes from its last checkpoint.

    Raises:
        Stopped: `stop` ended it early.
    """
    known = read_result(folder)
    if known is not None:
        return known
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / ARCHITECTURE, arch.to_json() + "\n")
    model = place(Transformer(arch, dropout=recipe.dropout, seed=recipe.seed), recipe)
    trainer = Trainer(model, Fixed(arch), recipe, prepared.train)
    checkpoints = Checkpoints(folder / "checkpoints", keep=1)
    checkpoints.load_newest(trainer)
    evaluate = evaluator(task, prepared, {"model": arch})
    try:
        if not fit(trainer, checkpoints, evaluate, observer, stop):
            raise Stopped
        with torch.no_grad(), enough_memory("evaluation at the end", less_memory(recipe)):
            results = evaluator(task, prepared, {"model": arch}, limited=False)(trainer)
    except DivergedError:
        results = {"model/loss": math.nan}
    metrics = {name.removeprefix("model/"): value for name, value in results.items() if name.startswith("model/")}
    write_json(folder / RESULT, {"schema_version": SCHEMA_VERSION, "key": arch.key, "seed": recipe.seed,
                                 "steps": trainer.progress.step, "tokens": trainer.progress.tokens, "metrics": metrics})
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return metrics
