"""The stage `nas evaluate`: architectures on the weights of a trained supernet."""

from __future__ import annotations

from nas import tasks
from nas.resolve import Named, resolve
from nas.run_dir import RunDir
from nas.train import load_supernet, prepare, score
from search_spaces import InputError

SPLITS = ("valid", "test")


def evaluate(name: str, arch: str | None, split: str, limit: int | None) -> dict[str, dict[str, float]]:
    """Every metric of the run's task, by architecture. Raises InputError."""
    if split not in SPLITS:
        raise InputError("--split", f"{split!r} is not allowed; allowed: {', '.join(SPLITS)}")
    run = RunDir.open(name)
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
