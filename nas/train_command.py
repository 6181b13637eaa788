"""`nas train`: a new run or an old one, here or on a cluster, with something to look at meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from nas import tasks
from nas import train as stage
from nas.config import RunConfig, make_recipe, parse_settings
from nas.progress import Bar, Files, Several, interruptible
from nas.run_dir import RunDir
from nas.tasks.base import Prepared
from search_spaces import Fault, InputError, load_space
from supernet.checkpoint import Checkpoints, newest_step, read_progress
from supernet.recipe import Recipe

CLUSTER_DEVICES = ("auto", "cpu", "cuda")


def train(*, space: str | None, task: str | None, data: Sequence[str], run: str | None, settings: Sequence[str],
          resume: str | None, workers: int, address: str, console: Console) -> bool:
    """Start or resume a run; false where it was stopped before the end. Raises InputError."""
    if resume is not None:
        found = _resumed(resume, space, task, data, run, settings, workers)
    else:
        found = _started(space, task, data, run, settings, workers)
    with found.locked():
        prepared = _prepared(found, resume is None, {"workers": workers, "ray": address if workers > 1 else None})
        for note in prepared.notes:
            console.print(f"note: {note}", markup=False)
        return _Training(found, prepared, workers, address, console).run()


def begin(name: str, config: RunConfig, console: Console) -> RunDir:
    """The run of that name with its data, made where it is not there; nothing is trained. Raises InputError."""
    new = not RunDir(name).config_path.is_file()
    if new:
        _check_machine(config.training, 1)
    found = RunDir.create(name, config) if new else RunDir.open(name)
    with found.locked():
        prepared = _prepared(found, new, {"workers": 1, "ray": None})
    for note in prepared.notes:
        console.print(f"note: {note}", markup=False)
    return found


def _started(space: str | None, task: str | None, data: Sequence[str], run: str | None,
             settings: Sequence[str], workers: int) -> RunDir:
    missing = [option for option, given in (("--space", space), ("--task", task), ("--run", run)) if given is None]
    if space is None or task is None or run is None:
        raise InputError("", f"a new run needs {' and '.join(missing)}; an old one goes on with --resume NAME")
    config = RunConfig(space=space, task=task, data=parse_settings(data, "--data"),
                       training=make_recipe(parse_settings(settings, "--set")))
    _check_machine(config.training, workers)
    tasks.get(task).check(load_space(space))
    return RunDir.create(run, config)


def _resumed(name: str, space: str | None, task: str | None, data: Sequence[str], run: str | None,
             settings: Sequence[str], workers: int) -> RunDir:
    """The run to go on with. Raises InputError for everything that is asked otherwise than it was started."""
    if run is not None and run != name:
        raise InputError("--run", f"goes with a new run; --resume {name} already names one")
    found = RunDir.open(name)
    old = found.config()
    new = old.model_copy(update={
        "space": space or old.space, "task": task or old.task,
        "data": {**old.data, **parse_settings(data, "--data")},
        "training": make_recipe(parse_settings(settings, "--set"), old.training)})
    faults = [Fault("", f"{difference}; to change it, start a new run") for difference in old.differences(new)]
    if faults:
        raise InputError(str(found.path), faults)
    _check_machine(new.training, workers)
    with found.locked():
        found.write_config(new)
    return found


def _check_machine(recipe: Recipe, workers: int) -> None:
    """Raises InputError where there is no such device, or a worker would get no row of a batch."""
    if workers == 1:
        stage.pick_device(recipe.device)
    elif recipe.device not in CLUSTER_DEVICES:
        raise InputError("device", f"{recipe.device!r} is not allowed with several workers; allowed: "
                                   f"{', '.join(CLUSTER_DEVICES)}: each worker gets one of its own")
    if recipe.batch_size < workers:
        raise InputError("--workers", f"{workers} workers cannot share a batch_size of {recipe.batch_size}")


def _prepared(run: RunDir, new: bool, start: Mapping[str, Any]) -> Prepared:
    """The run's data, and a note of which they are; a new run without data is no run."""
    try:
        prepared = stage.prepare(run)
    except InputError:
        if new:
            run.discard()
        raise
    recipe, step = run.config().training, newest_step(run.path / "checkpoints")
    run.write_manifest({"data_fingerprint": prepared.fingerprint, "seed": recipe.seed},
                       {"step": step, **start, "device": recipe.device})
    return prepared


@dataclass(frozen=True)
class _Training:
    """One call of the stage, and what is said before and after it."""

    folder: RunDir
    prepared: Prepared
    workers: int
    address: str
    console: Console

    def run(self) -> bool:
        """False where it was stopped before the end."""
        recipe, start = self.folder.config().training, newest_step(self.folder.path / "checkpoints")
        if self.folder.weights_path.is_file():
            self._print(f"{self.folder.path} is trained to the end already: nothing is left to train")
        elif start:
            self.console.print(f"going on after step {start:,} of {recipe.steps:,}")
        bar = Bar(self.console, recipe.steps, start)
        with interruptible(self.console) as stop, bar.bar:
            if self.workers == 1:
                files = Files(self.folder.path, start, recipe.log_every)
                done = stage.train(self.folder, Several((files, bar)), stop, prepared=self.prepared)
            else:
                from nas.cluster import train_on_ray

                done = train_on_ray(self.folder, self.workers, self.address, bar, stop)
        self._say(done)
        return done

    def _say(self, done: bool) -> None:
        path, name = self.folder.path, self.folder.name
        if not done:
            step = newest_step(path / "checkpoints")
            self._print(f"stopped after step {step:,}; go on with: {self.folder.resume_command()}")
            return
        progress = read_progress(Checkpoints(path / "checkpoints", 1).all()[-1] / "state.json")
        if progress.stopped_early:
            self._print(f"stopped early: no better loss since step {progress.best_step:,}")
        if self.folder.config().training.patience and progress.best_loss is not None:
            self._print(f"the weights are those of step {progress.best_step:,}, the best evaluation")
        if progress.skipped:
            self._print(f"{progress.skipped:,} steps had no finite gradient and were skipped")
        self._print(f"trained for {progress.step:,} steps, {progress.tokens:,} tokens: {self.folder.weights_path}")
        self._print(f"curves: {path}/metrics.csv, or tensorboard --logdir {path}/tensorboard")
        self._print(f"how good it is: nas evaluate {name}; how well it ranks: nas rank {name}")
        self._print(f"what is next: nas search {name}")

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)
