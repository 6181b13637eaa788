"""The stage `nas evaluate`: architectures on the weights of a trained supernet, or a subnet on its own."""

from __future__ import annotations

from pathlib import Path

from nas import tasks
from nas.resolve import Named, resolve
from nas.run_dir import RunDir
from nas.subnet import Subnet
from nas.train import load_supernet, place, prepare, score
from search_spaces import InputError
from supernet.pretrained import ARCHITECTURE

SPLITS = ("valid", "test")
Metrics = dict[str, dict[str, float]]


def evaluate(name: str, arch: str | None, split: str, limit: int | None) -> Metrics:
    """Every metric of the task, by architecture; of a run's supernet, or of a subnet. Raises InputError."""
    if split not in SPLITS:
        raise InputError("--split", f"{split!r} is not allowed; allowed: {', '.join(SPLITS)}")
    found = _opened(name)
    if isinstance(found, RunDir):
        return _of_run(found, arch, split, limit)
    if arch is not None:
        raise InputError(arch, f"goes with a run; {name} is a subnet, which has one architecture")
    run, prepared = found.run(), found.prepared()
    config = run.config()
    model = place(found.model(), config.training)
    metrics = score(model, found.arch, tasks.get(config.task), prepared, config.training, split, True, limit)
    return {found.path.resolve().name: metrics}


def _opened(name: str) -> RunDir | Subnet:
    """A run by its name or folder, or else a subnet."""
    try:
        return RunDir.open(name)
    except InputError:
        if "/" not in name and not (Path(name) / ARCHITECTURE).is_file():
            raise
    return Subnet.open(name)


def _of_run(run: RunDir, arch: str | None, split: str, limit: int | None) -> Metrics:
    config, prepared = run.config(), prepare(run)
    net = load_supernet(run, prepared.space)
    archs = {"smallest": prepared.space.smallest(), "largest": prepared.space.largest()}
    if arch is not None:
        found = resolve(arch)
        if not isinstance(found, Named):
            raise InputError(arch, "is a space; give an architecture's JSON file or folder")
        prepared.space.encode(found.arch)  # says what stands in the way where it is not of this space
        archs = {found.name: found.arch}
    task = tasks.get(config.task)
    return {label: score(net, each, task, prepared, config.training, split, full=True, limit=limit)
            for label, each in archs.items()}
