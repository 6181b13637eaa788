"""A subnet for another task: a run with the data of the task, and in it the subnet with the head that it needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nas import tasks
from nas.core.config import FINE_TUNING, RunConfig, make_recipe, make_run_config
from nas.core.evaluation import pick_device, prepare
from nas.core.heads import with_head
from nas.core.names import SUBNETS
from nas.core.run_dir import RunDir, digest
from nas.core.space_around import fixed_space
from nas.core.subnet import HistoryStep, Subnet, write_subnet
from nas.importers import usual_dropout, with_task_head
from nas.stages.retrain.config import make_config
from nas.stages.retrain.request import RetrainRequest
from nas.tasks.base import Prepared, Task
from search_spaces import Architecture, InputError
from search_spaces.errors import Option
from supernet.pretrained import QUANTISATION, WEIGHTS

OF_RUN = ("seed", "device", "precision")
"""Training settings that a new run takes over."""


def adapt(request: RetrainRequest) -> tuple[RetrainRequest, Subnet, Prepared]:
    """The request for the subnet in a run of its task, which is created unless it exists.

    Raises:
        InputError: the task is for another family, its data are wrong, or the run is of another task or model.
    """
    source, task = Subnet.open(request.subnet), tasks.get(str(request.task))
    if source.arch.family != task.family:
        raise InputError(request.subnet, f"is of the family {source.arch.family}; the task {task.name} needs "
                                         f"{task.family}")
    if (source.path / QUANTISATION).exists():
        raise InputError(request.subnet, "has quantised or pruned weights, which training would undo; use the subnet "
                                         "it was made from")
    make_config(replace(request, teacher=_teacher(request)), FINE_TUNING, subnet="", out="")  # before reading the data
    arch = with_task_head(source.arch, task.head, model_type=source.facts.model_type)
    run, new = _opened(source, task, arch, request)
    with run.locked():
        try:
            prepared = prepare(run)
        except InputError:
            if new:
                run.discard()
            raise
        seed = run.config().training.seed
        run.write_manifest({"data_fingerprint": prepared.fingerprint, "seed": seed}, {"step": 0, "workers": 1})
        subnet = _adapted(source, run, prepared, seed)
    return replace(request, subnet=str(subnet.path), teacher=_teacher(request)), subnet, prepared


def _teacher(request: RetrainRequest) -> str:
    """The requested teacher; none by default, because there is no supernet."""
    return "none" if request.teacher == "supernet" else request.teacher


def _opened(source: Subnet, task: Task, arch: Architecture, request: RetrainRequest) -> tuple[RunDir, bool]:
    """The run of a request, and whether it is new."""
    name = request.run or f"{source.path.resolve().name}-{task.name}"
    if "tokenizer" in request.data:
        raise InputError(Option("data"), f"tokenizer cannot be set: the tokenizer of {source.path} is used")
    recipe = make_recipe({key: value for key, value in request.training.items() if key in OF_RUN},
                         FINE_TUNING.model_copy(update={"dropout": usual_dropout(source.facts.model_type)}))
    config = make_run_config(str(source.path), task.name, {"tokenizer": str(source.path), **request.data}, recipe)
    text = fixed_space(arch, source.path.resolve().name)
    if not RunDir(name).config_path.is_file():
        pick_device(recipe.device)
        return RunDir.create(name, config, text), True
    run = RunDir.open(name)
    _check_same(run, config, text)
    return run, False


def _check_same(run: RunDir, config: RunConfig, text: str) -> None:
    """Raises InputError if a run is not the one of this request."""
    old = run.config()
    compared = old.model_copy(update={"training": config.training})
    differences = list(compared.differences(config))
    if not differences and (run.path / "space.yaml").read_text("utf-8") != text:
        differences = ["its model is another architecture"]
    if differences:
        raise InputError(str(run.path), f"exists: {differences[0]}; name another run with {Option('run')}")


def _adapted(source: Subnet, run: RunDir, prepared: Prepared, seed: int) -> Subnet:
    """The subnet of the run, written unless it is there."""
    folder, weights = run.path / SUBNETS / source.path.resolve().name, digest(source.path / WEIGHTS)[:16]
    if folder.exists():
        return _checked(folder, weights)
    model, fresh = with_head(source.model(), prepared.space.largest(), seed)
    settings = {"task": run.config().task, "new_tensors": list(fresh), "weights": weights}
    facts = source.facts.then(
        HistoryStep(stage="adapt", settings=settings), key=model.arch.key, task=run.config().task, run=str(run.path),
        data=run.config().data, labels=prepared.labels, scale=prepared.scale, specials=dict(prepared.specials),
        costs={}, unmeasured_share={})
    return write_subnet(folder, model, source.tokenizer(), facts)


def _checked(folder: Path, weights: str) -> Subnet:
    """An adapted subnet. Raises InputError if it was made from other weights."""
    subnet = Subnet.open(str(folder))
    if next((step.settings["weights"] for step in subnet.facts.made if step.stage == "adapt"), None) != weights:
        raise InputError(str(folder), f"was created from other weights; name another run with {Option('run')}")
    return subnet
