"""The training of a run's supernet, in one process or in one of several workers."""

from __future__ import annotations

from safetensors import SafetensorError

from nas import tasks
from nas.core.evaluation import evaluator, place, prepare
from nas.core.run_dir import RunDir
from nas.core.stopping import Stop, Stopped
from nas.stages.train.init import load_init, teaches
from nas.tasks.base import Prepared
from search_spaces import InputError
from search_spaces.files.writing import delete, whole
from supernet import Supernet, Transformer
from supernet.filling import fill
from supernet.store import has_cores
from supernet.train.checkpoint import Checkpoints, save_tensors
from supernet.train.fit import Observer, fit
from supernet.train.opening import OrderBeforeStep, largest_first, opens_at
from supernet.train.parallel import Workers
from supernet.train.recipe import Recipe
from supernet.train.step import Trainer
from supernet.train.strategy import make_strategy
from supernet.train.teaching import Teacher


def train_supernet(run: RunDir, observer: Observer, stop: Stop = lambda: False,
                   workers: Workers = Workers(),  # noqa: B008
                   prepared: Prepared | None = None, device: str | None = None) -> None:
    """Train a run's supernet from its newest checkpoint to the end.

    At the end the folder contains `supernet.safetensors`: the averaged weights if enabled, those of the best evaluation
    with patience.

    Args:
        device: the worker's own, where a cluster gives it one.

    Raises:
        InputError: there is no such device, memory runs out, or the training diverges.
        Stopped: `stop` ended it early; a checkpoint is written.
    """
    prepared = prepared or prepare(run)
    config = run.config()
    recipe = config.training if device is None else config.training.model_copy(update={"device": device})
    checkpoints = Checkpoints(run.path / "checkpoints", recipe.keep)
    saved = checkpoints.newest_names()
    model = load_init(run, recipe)
    trainer = make_trainer(prepared, recipe, workers, not saved or has_cores(saved), model,
                           model if model is not None and teaches(run) else None)
    checkpoints.load_newest(trainer)
    if workers.broadcast(trainer.progress.step) != trainer.progress.step:
        raise RuntimeError("a worker read an older checkpoint than the first worker; it is restarted")
    judged = {"largest": prepared.space.largest()}
    if recipe.strategy != "largest":
        judged["smallest"] = prepared.space.smallest()
    if not fit(trainer, checkpoints, evaluator(tasks.get(config.task), prepared, judged), observer, stop):
        raise stopped(run, trainer.progress.step)
    if workers.rank == 0:
        checkpoints.load_best(trainer)
        save_weights(trainer, run)


def stopped(run: RunDir, step: int) -> Stopped:
    """The exception for a training that was stopped after a step."""
    return Stopped(f"stopped after step {step:,}; resume with: {run.resume_command()}")


def make_trainer(prepared: Prepared, recipe: Recipe, workers: Workers = Workers(), cores: bool = True,  # noqa: B008
                 model: Transformer | None = None, teacher: Transformer | None = None) -> Trainer:
    """The trainer of a supernet at its first step.

    Args:
        cores: as in `Supernet`.
        model: whose weights the supernet starts from.
        teacher: teaches every architecture.
    """
    net = place(Supernet(prepared.space, seed=recipe.seed, dropout=recipe.dropout, cores=cores), recipe)
    if model is not None:
        fill(net, model)
    strategy = make_strategy(recipe.strategy, prepared.space, recipe.seed, recipe.n_random, recipe.steps)
    return Trainer(net, largest_first(strategy, net, recipe), recipe, prepared.train, workers,
                   teacher=None if teacher is None else Teacher(teacher),
                   before_step=OrderBeforeStep(opens_at(recipe)) if recipe.order_at else None)


def save_weights(trainer: Trainer, run: RunDir) -> None:
    """Write the trained supernet. Raises InputError if that fails; the last checkpoint is intact."""
    for left in run.path.glob(f".{run.weights_path.name}.*"):  # by a process that was killed
        delete(left)
    try:
        with trainer.averaged() as model, whole(run.weights_path) as temporary:
            save_tensors(model.state_dict(), temporary)
    except (OSError, SafetensorError) as error:
        raise InputError(str(run.weights_path), f"cannot be written ({str(error).splitlines()[0]}); resume with "
                                                f"{run.resume_command()}") from None
