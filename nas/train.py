"""The stage `nas train`: a supernet on a task's data, in the folder of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from safetensors import SafetensorError
from torch import nn

from nas import tasks
from nas.run_dir import RunDir
from nas.tasks.base import Prepared, Task
from search_spaces import Architecture, InputError, SearchSpace
from supernet import Supernet
from supernet.batch import Batch
from supernet.checkpoint import Checkpoints, load_tensors, save_tensors
from supernet.fit import Evaluate, Observer, enough_memory, fit
from supernet.parallel import Workers
from supernet.recipe import Recipe
from supernet.sampling import make_strategy
from supernet.training import Trainer, predict
from supernet.writing import delete, whole

Stop = Callable[[], bool]


def prepare(run: RunDir) -> Prepared:
    """The run's data: read, split and encoded once, then from the run's folder.

    Raises:
        InputError: the data are wrong, or not those the run was started with.
    """
    config = run.config()
    found = tasks.get(config.task).prepare(config.data, run.space(), run.path / "data", config.training.seed)
    if run.read_manifest().get("data_fingerprint", found.fingerprint) != found.fingerprint:
        raise InputError(str(run.path / "data"), "holds other data than the run was started with; start a new run")
    return found


def train(run: RunDir, observer: Observer, stop: Stop = lambda: False, workers: Workers = Workers(),  # noqa: B008
          prepared: Prepared | None = None, device: str | None = None) -> bool:
    """Train a run's supernet from where it stands; false where `stop` ended it early.

    A cluster gives each worker a `device` of its own.

    At the end the folder holds `supernet.safetensors`: the averaged weights where the recipe keeps them, those of the
    best evaluation where it has patience.
    """
    prepared = prepared or prepare(run)
    config = run.config()
    recipe = config.training if device is None else config.training.model_copy(update={"device": device})
    trainer = make_trainer(prepared, recipe, workers)
    checkpoints = Checkpoints(run.path / "checkpoints", recipe.keep)
    checkpoints.load_newest(trainer)
    if workers.told(trainer.progress.step) != trainer.progress.step:
        raise RuntimeError("a worker read an older checkpoint than the first; it is started again")
    judged = {"largest": prepared.space.largest()}
    if recipe.strategy != "largest":
        judged["smallest"] = prepared.space.smallest()
    done = fit(trainer, checkpoints, evaluator(tasks.get(config.task), prepared, judged), observer, stop)
    if done and workers.rank == 0:
        checkpoints.load_best(trainer)
        save_weights(trainer, run)
    return done


def make_trainer(prepared: Prepared, recipe: Recipe, workers: Workers = Workers()) -> Trainer:  # noqa: B008
    """The trainer of a supernet at its first step."""
    net = place(Supernet(prepared.space, seed=recipe.seed, dropout=recipe.dropout), recipe)
    strategy = make_strategy(recipe.strategy, prepared.space, recipe.seed, recipe.n_random, recipe.steps)
    return Trainer(net, strategy, recipe, prepared.train, workers)


def evaluator(task: Task, prepared: Prepared, archs: Mapping[str, Architecture], limited: bool = True) -> Evaluate:
    """Measures architectures on the validation split; `loss` is their mean."""
    def evaluate(trainer: Trainer) -> dict[str, float]:
        recipe = trainer.recipe
        found: dict[str, float] = {}
        with trainer.averaged():
            for name, arch in archs.items():
                def logits(batch: Batch, arch: Architecture = arch) -> torch.Tensor:
                    return trainer.logits(arch, batch.to(trainer.device))

                limit = recipe.evaluate_limit or None if limited else None
                metrics = task.evaluate(logits, prepared, "valid", size=recipe.batch_size, limit=limit, full=False)
                found |= {f"{name}/{metric}": value for metric, value in metrics.items()}
        return {"loss": sum(found[f"{name}/loss"] for name in archs) / len(archs), **found}

    return evaluate


def save_weights(trainer: Trainer, run: RunDir) -> None:
    """Write the trained supernet. Raises InputError where that fails; the last checkpoint has all it needs."""
    for left in run.path.glob(f".{run.weights_path.name}.*"):  # by a process that was killed
        delete(left)
    try:
        with trainer.averaged() as model, whole(run.weights_path) as temporary:
            save_tensors(model.state_dict(), temporary)
    except (OSError, SafetensorError) as error:
        raise InputError(str(run.weights_path), f"cannot be written ({str(error).splitlines()[0]}); go on with "
                                                f"{run.resume_command()}") from None


def check_trained(run: RunDir) -> None:
    """Raises InputError where training is not finished."""
    if not run.weights_path.is_file():
        raise InputError(str(run.path), f"its supernet is not trained to the end; run {run.resume_command()}")


def load_supernet(run: RunDir, space: SearchSpace) -> Supernet:
    """The run's trained supernet in eval mode. Raises InputError where training is not finished."""
    check_trained(run)
    recipe = run.config().training
    net = place(Supernet(space, dropout=recipe.dropout), recipe)
    remedy = f"delete it and run {run.resume_command()}"
    try:
        net.load_state_dict(load_tensors(run.weights_path, remedy))
    except RuntimeError:
        raise InputError(str(run.weights_path), f"does not fit the run's space; {remedy}") from None
    return net.eval()


def score(model: nn.Module, arch: Architecture, task: Task, prepared: Prepared, recipe: Recipe, split: str = "valid",
          full: bool = False, limit: int | None = None) -> dict[str, float]:
    """The metrics of an architecture in a supernet, or of a plain model, in the precision it was trained in.

    Raises:
        InputError: there is not enough memory.
    """
    device, size = next(model.parameters()).device, recipe.batch_size
    remedy = f"end other programs, or train with a batch_size below {size}: as many sequences are evaluated at a time"
    with torch.no_grad(), enough_memory(f"evaluation of {arch.key[:12]}", remedy):
        return task.evaluate(lambda batch: predict(model, arch, batch.to(device), recipe), prepared, split, size=size,
                             limit=limit, full=full)


Model = TypeVar("Model", bound=nn.Module)


def place(model: Model, recipe: Recipe) -> Model:
    """The model on the recipe's device, in the type its weights keep. Raises InputError where there is no device."""
    return model.to(pick_device(recipe.device), torch.float64 if recipe.precision == "fp64" else torch.float32)


def pick_device(name: str) -> torch.device:
    """A device by its name; `auto` is the accelerator where there is one. Raises InputError where it is not there."""
    if name == "auto":
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return found or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError("device", f"{name!r} cannot be used: {str(error).splitlines()[0]}") from None
    return device
