"""Train plain models from scratch: the yardstick for what a supernet's weights predict."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import torch

from nas.run_dir import write_json, write_text
from nas.tasks.base import Prepared, Task
from nas.train import Stop, evaluator, place
from search_spaces import Architecture, InputError
from supernet import Transformer
from supernet.checkpoint import Checkpoints
from supernet.fit import Observer, enough_memory, fit, less_memory
from supernet.recipe import Recipe
from supernet.sampling import Fixed
from supernet.training import DivergedError, Trainer

RESULT = "result.json"
SCHEMA_VERSION = 1


def train_plain(arch: Architecture, task: Task, prepared: Prepared, recipe: Recipe, folder: Path,
                observer: Observer | None = None, stop: Stop = lambda: False) -> dict[str, float] | None:
    """Train an architecture from scratch and give its metrics on the whole validation split; None where stopped.

    A training that diverges has a loss of NaN, so that others go on. A finished one is read from its folder, a broken
    off one goes on from its last checkpoint.
    """
    known = read_result(folder)
    if known is not None:
        return known
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "architecture.json", arch.to_json() + "\n")
    model = place(Transformer(arch, dropout=recipe.dropout, seed=recipe.seed), recipe)
    trainer = Trainer(model, Fixed(arch), recipe, prepared.train)
    checkpoints = Checkpoints(folder / "checkpoints", keep=1)
    checkpoints.load_newest(trainer)
    evaluate = evaluator(task, prepared, {"model": arch})
    try:
        if not fit(trainer, checkpoints, evaluate, observer, stop):
            return None
        with torch.no_grad(), enough_memory("evaluation at the end", less_memory(recipe)):
            found = evaluator(task, prepared, {"model": arch}, limited=False)(trainer)
    except DivergedError:
        found = {"model/loss": math.nan}
    metrics = {name.removeprefix("model/"): value for name, value in found.items() if name.startswith("model/")}
    write_json(folder / RESULT, {"schema_version": SCHEMA_VERSION, "key": arch.key, "seed": recipe.seed,
                                 "steps": trainer.progress.step, "tokens": trainer.progress.tokens, "metrics": metrics})
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return metrics


def read_result(folder: Path) -> dict[str, float] | None:
    """The metrics of a finished training; None where there is none. Raises InputError for a damaged file."""
    path = folder / RESULT
    if not path.is_file():
        return None
    try:
        data: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return {str(name): math.nan if value is None else float(value) for name, value in data["metrics"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(str(path), "cannot be read; delete it to train this architecture again") from None
