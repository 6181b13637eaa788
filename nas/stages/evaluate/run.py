"""The stage `evaluate`: architectures on the weights of a trained supernet, or a single subnet."""

from __future__ import annotations

from pathlib import Path

from nas import tasks
from nas.core.evaluation import load_supernet, place, prepare, score
from nas.core.progress import StageProgress
from nas.core.resolve import Named, resolve
from nas.core.run_dir import RunDir
from nas.core.stopping import Stopped
from nas.core.subnet import Subnet
from nas.stages.evaluate.request import EvaluateRequest
from search_spaces import Architecture, InputError, SearchSpace
from search_spaces.files import ARCHITECTURE

Metrics = dict[str, dict[str, float]]


def run(request: EvaluateRequest, progress: StageProgress) -> Metrics:
    """Every metric of the task, by architecture. Raises InputError, Stopped."""
    opened = _opened(request.of)
    if isinstance(opened, RunDir):
        return _of_run(opened, request, progress)
    if request.arch is not None:
        raise InputError(request.arch, f"requires a run; {request.of} is a subnet, which has one architecture")
    config, prepared = opened.run().config(), opened.prepared()
    model = place(opened.model(), config.training)
    metrics = score(model, opened.arch, tasks.get(config.task), prepared, config.training, request.split, True,
                    request.limit)
    return {opened.path.resolve().name: metrics}


def _opened(name: str) -> RunDir | Subnet:
    """A run by its name or folder, or else a subnet."""
    try:
        return RunDir.open(name)
    except InputError:
        if "/" not in name and not (Path(name) / ARCHITECTURE).is_file():
            raise
    return Subnet.open(name)


def _of_run(folder: RunDir, request: EvaluateRequest, progress: StageProgress) -> Metrics:
    config, prepared = folder.config(), prepare(folder)
    net, task = load_supernet(folder, prepared.space), tasks.get(config.task)
    metrics: Metrics = {}
    for label, arch in _archs(request.arch, prepared.space).items():
        if progress.stop():
            raise Stopped
        metrics[label] = score(net, arch, task, prepared, config.training, request.split, True, request.limit)
    return metrics


def _archs(arch: str | None, space: SearchSpace) -> dict[str, Architecture]:
    """An architecture of the space by its name, or the smallest and the largest.

    Raises InputError if it is not in the space.
    """
    if arch is None:
        return {"smallest": space.smallest(), "largest": space.largest()}
    named = resolve(arch)
    if not isinstance(named, Named):
        raise InputError(arch, "is a space; give an architecture's JSON file or folder")
    space.encode(named.arch)  # raises InputError
    return {named.name: named.arch}
