"""The stage `train`: a supernet on a task's data, in the folder of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nas.core.config import RunConfig
from nas.core.evaluation import pick_device, prepare
from nas.core.metrics import Files, Several, outcome_notes
from nas.core.progress import StageProgress
from nas.core.run_dir import RunDir, write_text
from nas.stages.train.init import prepare_init
from nas.stages.train.quality import notes
from nas.stages.train.request import TrainRequest
from nas.stages.train.training import train_supernet
from nas.tasks.base import Prepared
from search_spaces import InputError
from supernet.train.checkpoint import Checkpoints, newest_step, read_progress
from supernet.train.step import Progress


@dataclass(frozen=True)
class TrainResult:
    """A fully trained run, and the final state of its training."""

    run: RunDir
    state: Progress


def run(request: TrainRequest, progress: StageProgress) -> TrainResult:
    """Start or resume a run and train it to the end.

    Raises:
        InputError: the request is invalid; a new run is then deleted.
        Stopped: the user stopped it.
    """
    new = request.resume is None
    folder = RunDir.create(str(request.run), request.new_config()) if new else _resumed(request)
    with folder.locked(), _taken_back(folder, new):
        prepared = _prepared(folder, request.workers, request.ray, progress)
        return _trained(folder, prepared, request, progress)


def begin(name: str, config: RunConfig, progress: StageProgress) -> RunDir:
    """The run of that name with its data, created where there is none; nothing is trained. Raises InputError."""
    new = not RunDir(name).config_path.is_file()
    if new:
        pick_device(config.training.device)
    folder = RunDir.create(name, config) if new else RunDir.open(name)
    with folder.locked(), _taken_back(folder, new):
        _prepared(folder, 1, "", progress)
    return folder


def _resumed(request: TrainRequest) -> RunDir:
    assert request.resume is not None, "see run"
    folder = RunDir.open(request.resume)
    config = request.resumed_config(folder.config(), str(folder.path))
    with folder.locked():
        write_text(folder.config_path, config.to_yaml())
    return folder


@contextmanager
def _taken_back(folder: RunDir, new: bool) -> Iterator[None]:
    """Delete a new run that fails before any training (no data, no cluster)."""
    try:
        yield
    except InputError:
        if new and not folder.is_begun:
            folder.discard()
        raise


def _prepared(folder: RunDir, workers: int, address: str, progress: StageProgress) -> Prepared:
    """The run's data, with a record of their digests."""
    with progress.breakable():
        prepared = prepare(folder)
    recipe, step = folder.config().training, newest_step(folder.path / "checkpoints")
    folder.write_manifest({"data_fingerprint": prepared.fingerprint, "seed": recipe.seed},
                          {"step": step, "workers": workers, "ray": address if workers > 1 else None,
                           "device": recipe.device})
    for note in prepared.notes:
        progress.note(f"note: {note}")
    prepare_init(folder, prepared, progress)
    return prepared


def _trained(folder: RunDir, prepared: Prepared, request: TrainRequest, progress: StageProgress) -> TrainResult:
    recipe, start = folder.config().training, newest_step(folder.path / "checkpoints")
    done = folder.weights_path.is_file()
    if done:
        progress.note(f"{folder.path} is already fully trained")
    elif start:
        progress.note(f"resuming after step {start:,} of {recipe.steps:,}")
    shown = progress.training("training", recipe.steps, start)
    if request.workers == 1:
        with Files(folder.path, start, recipe.log_every) as files:
            train_supernet(folder, Several((files, shown)), progress.stop, prepared=prepared)
    else:
        from nas.stages.train.on_ray import train_on_ray

        train_on_ray(folder, request.workers, request.ray, shown, progress.stop)
    progress.finish()
    state = read_progress(Checkpoints(folder.path / "checkpoints", 1).all()[-1] / "state.json")
    for note in outcome_notes(state, recipe, folder.path):
        progress.note(note)
    if request.check and not done:
        with progress.breakable():
            for note in notes(folder, prepared):
                progress.note(note)
    return TrainResult(folder, state)
