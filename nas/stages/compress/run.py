"""The stage `compress`: a subnet's folder in, another with the smaller model out."""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nas import tasks
from nas.core.config import FREE
from nas.core.evaluation import place, score
from nas.core.names import SUBNETS
from nas.core.progress import StageProgress
from nas.core.run_dir import RunDir, digest, locked
from nas.core.stopping import Stopped
from nas.core.subnet import HistoryStep, Subnet, check_free, finite, write_derived
from nas.stages.compress.request import CompressRequest
from nas.stages.compress.technique import CompressionContext, Technique
from search_spaces import InputError
from search_spaces.files.writing import delete
from supernet import Transformer
from supernet.pretrained import QUANTISATION, WEIGHTS
from supernet.train.recipe import Recipe


@dataclass(frozen=True)
class Compressed:
    """A subnet and the smaller one."""

    before: Subnet
    after: Subnet

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON output."""
        return {"folder": str(self.after.path), "key": self.after.arch.key, "metrics": self.after.facts.metrics,
                "bytes": size_on_disk(self.after.path), "costs": self.after.facts.costs,
                "settings": self.after.facts.made[-1].settings,
                "original": {"folder": str(self.before.path), "key": self.before.arch.key,
                             "metrics": self.before.facts.metrics, "bytes": size_on_disk(self.before.path),
                             "costs": self.before.facts.costs}}


def size_on_disk(folder: Path) -> int:
    """The bytes of a subnet's weights, and of the file that says how they are stored."""
    return sum(path.stat().st_size for name in (WEIGHTS, QUANTISATION) if (path := folder / name).is_file())


def run(request: CompressRequest, progress: StageProgress) -> Compressed:
    """Apply a technique to a subnet and write the result.

    Raises:
        InputError: the technique does not fit the model, a setting is wrong, or the folder exists.
        Stopped: the user asked to stop; the same request resumes an unfinished training.
    """
    subnet, technique = Subnet.open(request.subnet), request.technique
    run_dir, model, task = subnet.run(), subnet.model(), tasks.get(subnet.facts.task)
    recipe = request.recipe(run_dir.config().training)
    folder = request.out or run_dir.path / SUBNETS / f"{subnet.path.resolve().name}-{technique.suffix}"
    check_free(folder)
    try:
        technique.check(model, recipe)
    except InputError as error:
        raise InputError(error.where or str(subnet.path), error.faults) from None
    state = _state(run_dir, subnet, folder, technique, recipe)
    context = CompressionContext(model, task, subnet.prepared(), recipe, request.trains, state, progress)
    compressed = _applied(technique, context)
    if progress.stop():
        raise Stopped
    progress.status("evaluating ...")
    after = _write(subnet, technique, context, compressed, folder)
    delete(context.folder)
    return Compressed(subnet, after)


def _state(run: RunDir, subnet: Subnet, out: Path, technique: Technique, recipe: Recipe) -> Path:
    """The folder of training state, named by everything that determines the result."""
    decides = [digest(subnet.path / WEIGHTS), technique.name, technique.model_dump(),
               recipe.model_dump(exclude=set(FREE))]
    key = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:12]
    return run.path / "compressing" / f"{out.name}-{key}"


def _applied(technique: Technique, context: CompressionContext) -> Transformer:
    if not context.trains:
        context.progress.status(f"{technique.name} ...")
        return technique.apply(context)
    context.folder.mkdir(parents=True, exist_ok=True)
    with locked(context.folder, "compression"):
        return technique.apply(context)


def _write(subnet: Subnet, technique: Technique, context: CompressionContext, model: Transformer,
           folder: Path) -> Subnet:
    """Measure the result on the whole validation split and write its folder."""
    here = place(copy.deepcopy(model), context.recipe)
    metrics = score(here, model.arch, context.task, context.prepared, context.recipe, full=True)
    recipe = {"steps": context.recipe.steps, "lr": context.recipe.lr} if context.trains else {}
    settings = {"technique": technique.name, **technique.summary(context.model, model), **recipe}
    step = HistoryStep(stage="compress", settings=settings, metrics=finite(metrics))
    return write_derived(folder, subnet, model, step)
