"""Shared by stages that train or evaluate: data of a run, its supernet, devices and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import nn

from nas import tasks
from nas.core.run_dir import RunDir
from nas.tasks.base import Prepared, Task
from search_spaces import Architecture, InputError, SearchSpace
from supernet import Supernet
from supernet.batch import Batch
from supernet.inference import predict
from supernet.store import has_cores
from supernet.train.checkpoint import load_tensors
from supernet.train.fit import EvaluateTrainer, enough_memory
from supernet.train.recipe import Recipe
from supernet.train.step import Trainer


def prepare(run: RunDir) -> Prepared:
    """The run's data: read, split and encoded once, then from the run's folder.

    Raises:
        InputError: the data are invalid, or differ from those the run was started with.
    """
    config = run.config()
    prepared = tasks.get(config.task).prepare(config.data, run.space(), run.path / "data", config.training.seed)
    if run.read_manifest().get("data_fingerprint", prepared.fingerprint) != prepared.fingerprint:
        raise InputError(str(run.path / "data"), "contains different data than the run was started with; start a new "
                                                 "run")
    return prepared


def evaluator(task: Task, prepared: Prepared, archs: Mapping[str, Architecture],
              limited: bool = True) -> EvaluateTrainer:
    """Evaluates architectures on the validation split; `loss` is their mean."""
    def evaluate(trainer: Trainer) -> dict[str, float]:
        recipe = trainer.recipe
        values: dict[str, float] = {}
        with trainer.averaged():
            for name, arch in archs.items():
                def logits(batch: Batch, arch: Architecture = arch) -> torch.Tensor:
                    return trainer.logits(arch, batch.to(trainer.device))

                limit = recipe.evaluate_limit or None if limited else None
                metrics = task.evaluate(logits, prepared, "valid", size=recipe.batch_size, limit=limit, full=False)
                values |= {f"{name}/{metric}": value for metric, value in metrics.items()}
        return {"loss": sum(values[f"{name}/loss"] for name in archs) / len(archs), **values}

    return evaluate


def check_trained(run: RunDir) -> None:
    """Raises InputError if training is not finished."""
    if not run.weights_path.is_file():
        raise InputError(str(run.path), f"training of the supernet is not finished; run {run.resume_command()}")


def load_supernet(run: RunDir, space: SearchSpace) -> Supernet:
    """The run's trained supernet in eval mode. Raises InputError if training is not finished."""
    check_trained(run)
    return read_supernet(run, space, run.config().training)


def read_supernet(run: RunDir, space: SearchSpace, recipe: Recipe) -> Supernet:
    """The weights of a finished run on the recipe's device, in eval mode. Raises InputError for a damaged file."""
    remedy = f"delete it and run {run.resume_command()}"
    tensors = load_tensors(run.weights_path, remedy)
    net = place(Supernet(space, dropout=recipe.dropout, cores=has_cores(tensors)), recipe)
    try:
        net.load_state_dict(tensors)
    except RuntimeError:
        raise InputError(str(run.weights_path), "does not fit the run's space", remedy) from None
    return net.eval()


def score(model: nn.Module, arch: Architecture, task: Task, prepared: Prepared, recipe: Recipe, split: str = "valid",
          full: bool = False, limit: int | None = None) -> dict[str, float]:
    """The metrics of an architecture in a supernet, or of a plain model, in the precision it was trained in.

    Raises:
        InputError: there is not enough memory.
    """
    device, size = next(model.parameters()).device, recipe.batch_size
    remedy = f"close other programs, or train with a batch_size below {size}; evaluation uses it, too"
    with torch.no_grad(), enough_memory(f"evaluation of {arch.key[:12]}", remedy):
        return task.evaluate(lambda batch: predict(model, arch, batch.to(device), recipe), prepared, split, size=size,
                             limit=limit, full=full)


Model = TypeVar("Model", bound=nn.Module)


def place(model: Model, recipe: Recipe) -> Model:
    """The model on the recipe's device, with the dtype of its weights. Raises InputError if there is no device."""
    return model.to(pick_device(recipe.device), torch.float64 if recipe.precision == "fp64" else torch.float32)


def pick_device(name: str) -> torch.device:
    """A device by its name; `auto` is the accelerator if there is one. Raises InputError if it is not available."""
    if name == "auto":
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return accelerator or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError("device", f"{name!r} cannot be used: {str(error).splitlines()[0]}") from None
    return device
