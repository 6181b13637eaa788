"""One retraining: its inputs, its state on disk, and its training with a teacher."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor

from nas import tasks
from nas.core.evaluation import check_trained, evaluator, load_supernet, place, score
from nas.core.metrics import Files, Several
from nas.core.names import SUBNETS
from nas.core.run_dir import RunDir, digest, locked, write_text
from nas.core.stopping import Stop, Stopped
from nas.core.subnet import HistoryStep, Subnet, check_free, finite, write_derived
from nas.stages.retrain.config import RetrainConfig, make_config, read_config
from nas.stages.retrain.request import RetrainRequest
from nas.tasks.base import Prepared
from search_spaces import Fault, InputError
from search_spaces.errors import Option
from supernet import Supernet, Transformer, extract
from supernet.filling import fill
from supernet.pretrained import QUANTISATION, WEIGHTS, load_model
from supernet.train.checkpoint import Checkpoints, newest_step
from supernet.train.fit import Observer, fit
from supernet.train.step import Progress, Trainer
from supernet.train.strategy import Fixed
from supernet.train.teaching import FIT_BATCHES, DistillationLoss, Teacher
from supernet.train.theseus import Theseus, predecessor, take_frame

SETTINGS = "settings.json"


@dataclass(frozen=True)
class RetrainJob:
    """One retraining.

    Args:
        teacher: the teacher subnet; None for the supernet or no teacher.
        work: where its state, curves and settings are kept.
        out: where the result goes.
    """

    subnet: Subnet
    run: RunDir
    config: RetrainConfig
    teacher: Subnet | None
    work: Path
    out: Path

    def anywhere(self) -> RetrainJob:
        """The same with absolute paths, for a process with another working directory."""
        def moved(subnet: Subnet) -> Subnet:
            return replace(subnet, path=subnet.path.absolute())

        return replace(self, subnet=moved(self.subnet), run=RunDir(str(self.run.path.absolute())),
                       teacher=self.teacher and moved(self.teacher), work=self.work.absolute(), out=self.out.absolute())

    @property
    def step(self) -> int:
        """The last completed step."""
        return newest_step(self.work / "checkpoints")

    def find_result(self) -> Subnet | None:
        """Its result, if finished; None if its folder does not exist or contains something else."""
        try:
            subnet = Subnet.open(str(self.out)) if self.out.exists() else None
        except InputError:
            return None
        steps = subnet.facts.made if subnet else ()
        return subnet if steps and steps[-1].settings.get("digest") == self.config.digest else None


@dataclass(frozen=True)
class Retrained:
    """A finished retraining; `progress` is None if it was already finished."""

    before: Subnet
    after: Subnet
    progress: Progress | None = None


def make_job(subnet: Subnet, prepared: Prepared, request: RetrainRequest) -> RetrainJob:
    """A checked retraining of a subnet. Raises InputError for faults that can be found before the first step."""
    run, path = subnet.run(), subnet.path.resolve()
    out = Path(request.out) if request.out else run.path / SUBNETS / f"{path.name}-retrained"
    teacher = _teacher(subnet, request)
    if (path / QUANTISATION).exists():
        raise InputError(str(subnet.path), "has quantised or pruned weights, which training would undo; retrain "
                                           "the subnet it was made from, then compress the result")
    if request.teacher == "supernet" or request.theseus:
        check_trained(run)
        if not any(step.stage in ("compress", "prune") for step in subnet.facts.made):  # those may leave the space
            prepared.space.encode(subnet.arch)
    if request.init == "model":
        _check_start(run, prepared, subnet)
    if request.theseus:
        predecessor(prepared.space, subnet.arch)
    config = make_config(request, run.config().training, subnet=path.name, out=os.path.relpath(out, run.path),
                         teacher=teacher.path.resolve().name if teacher else request.teacher,
                         inputs=_inputs(subnet, run, prepared, teacher, request))
    work = run.path / "retraining" / f"{path.name}-{config.digest}"
    job = RetrainJob(subnet, run, config, teacher, work, out)
    if job.find_result() is None:
        _check_other_result(out)
        check_free(out)
        _check_others(job)
    return job


def _check_start(run: RunDir, prepared: Prepared, subnet: Subnet) -> None:
    """Raises InputError if the run started from no model, or the subnet is not in its space."""
    if not run.init_path.is_dir():
        raise InputError(f"{Option('init')} model", f"{run.path} did not start from a trained model; allowed: inherit, "
                                                    "scratch")
    prepared.space.encode(subnet.arch)


def _teacher(subnet: Subnet, request: RetrainRequest) -> Subnet | None:
    """The teacher subnet, if any. Raises InputError if it does not fit this student."""
    if request.teacher in ("supernet", "none"):
        return None
    teacher, student, where = Subnet.open(request.teacher), subnet.arch, Option("teacher")
    if teacher.tokenizer().get_vocab() != subnet.tokenizer().get_vocab():
        raise InputError(where, f"{request.teacher} has a different vocabulary than {subnet.path}; a teacher needs the "
                                "same; use one of the same run, or supernet")
    if teacher.arch.family != student.family or (teacher.facts.labels, teacher.facts.scale) != (
            subnet.facts.labels, subnet.facts.scale):
        raise InputError(where, f"{request.teacher} has different labels than {subnet.path}; a teacher needs the same")
    if teacher.arch.context < student.context:
        raise InputError(where, f"{request.teacher} has a context of {teacher.arch.context} tokens, {subnet.path} one "
                                f"of {student.context}; a teacher needs at least the same context")
    return teacher


def _inputs(subnet: Subnet, run: RunDir, prepared: Prepared, teacher: Subnet | None,
            request: RetrainRequest) -> dict[str, str]:
    """Digests of the inputs besides the settings."""
    inputs = {"data": prepared.fingerprint, "architecture": subnet.arch.key}
    if request.init == "inherit":
        inputs["weights of the subnet"] = digest(subnet.path / WEIGHTS)[:16]
    if request.init == "model":
        inputs["weights of the model"] = digest(run.init_path / WEIGHTS)[:16]
    if teacher is not None:
        inputs["weights of the teacher"] = digest(teacher.path / WEIGHTS)[:16]
    if request.teacher == "supernet" or request.theseus:
        inputs["weights of the supernet"] = digest(run.weights_path)[:16]
    return inputs


def _check_other_result(out: Path) -> None:
    """Raises InputError if a folder is the result of another retraining."""
    try:
        steps = Subnet.open(str(out)).facts.made if out.exists() else ()
    except InputError:
        return
    if steps and steps[-1].stage == "retrain":
        raise InputError(str(out), "exists, retrained with other settings or inputs; delete it, or name another folder "
                                   f"with {Option('out')}")


def _check_others(job: RetrainJob) -> None:
    """Raises InputError if another retraining with the same output was started and not finished."""
    for path in sorted(job.work.parent.glob(f"*/{SETTINGS}")):
        if path.parent == job.work or not newest_step(path.parent / "checkpoints"):
            continue
        other = read_config(path)
        if other.out == job.config.out:
            remedy = (f"; resume it with the same settings, delete {path.parent} to restart, or name another folder "
                      f"with {Option('out')}")
            raise InputError(f"{path.parent} is not finished", [
                Fault("", difference + remedy) for difference in other.differences(job.config)])


def retrain(job: RetrainJob, prepared: Prepared, observer: Observer | None = None,
            stop: Stop = lambda: False) -> Retrained:
    """Train from the newest checkpoint and write the result.

    Raises InputError, and Stopped if `stop` ended it early.
    """
    known = job.find_result()
    if known is not None:
        _clean(job)
        return Retrained(job.subnet, known)
    check_free(job.out)
    trainer = make_trainer(job, prepared)
    job.work.mkdir(parents=True, exist_ok=True)
    with locked(job.work, "retraining"):
        recipe = trainer.recipe
        write_text(job.work / SETTINGS, job.config.model_dump_json(indent=2) + "\n")
        checkpoints = Checkpoints(job.work / "checkpoints", recipe.keep)
        checkpoints.load_newest(trainer)
        evaluate = evaluator(tasks.get(job.run.config().task), prepared, {"model": job.subnet.arch})
        with Files(job.work, trainer.progress.step, recipe.log_every) as files:
            if not fit(trainer, checkpoints, evaluate, Several([files, *([observer] if observer else [])]), stop):
                raise Stopped(f"stopped after step {trainer.progress.step:,}")
        progress = trainer.progress
        checkpoints.load_best(trainer)
        result = _write(job, prepared, trainer, progress)
        _clean(job)
    return Retrained(job.subnet, result, progress)


def make_trainer(job: RetrainJob, prepared: Prepared) -> Trainer:
    """The trainer of a subnet at its first step, with its training loss. Raises InputError."""
    recipe, arch = job.config.training, job.subnet.arch
    if job.config.init == "inherit":
        student = job.subnet.model(recipe.dropout)
    elif job.config.init == "model":
        net = Supernet(prepared.space, dropout=recipe.dropout)
        fill(net, load_model(job.run.init_path))
        student = extract(net, arch)
    else:
        student = Transformer(arch, dropout=recipe.dropout, seed=recipe.seed)
    student = place(student, recipe)
    return Trainer(student, Fixed(arch), recipe, prepared.train,
                   training_loss=_distillation_loss(job, prepared, student))


def _distillation_loss(job: RetrainJob, prepared: Prepared, student: Transformer) -> DistillationLoss | None:
    """The distillation of the student; None without a teacher."""
    config, recipe = job.config, job.config.training
    if not (config.distill or config.theseus):
        return None
    needs_net = config.theseus or job.teacher is None
    net = load_supernet(job.run, prepared.space) if needs_net else None
    theseus = _theseus(job, net, student) if net is not None and config.theseus else None
    loss = DistillationLoss(
        student, _teacher_model(job, net) if config.distill else None, config.distill, temperature=config.temperature,
        label_share=config.label_share, feature_weight=config.feature_weight,
        attention_weight=config.attention_weight, fade=config.fade, theseus=theseus,
        same_channels=job.teacher is None)
    device = next(student.parameters()).device
    loss.fit_projections(student, (prepared.train.batch(i, recipe.batch_size, recipe.seed).to(device)
                                   for i in range(FIT_BATCHES)), recipe)
    return loss


def _theseus(job: RetrainJob, net: Supernet, student: Transformer) -> Theseus:
    config, recipe = job.config, job.config.training
    larger = place(extract(net, predecessor(net.space, job.subnet.arch)), recipe)
    take_frame(student, larger)
    return Theseus(larger, recipe.seed, config.theseus_start, config.theseus_share * recipe.steps)


def _teacher_model(job: RetrainJob, net: Supernet | None) -> Teacher:
    if job.teacher is not None:
        recipe = job.config.training
        known = _known_logits(job.config.inputs["weights of the teacher"], recipe.precision, recipe.device)
        return Teacher(place(job.teacher.model(), recipe), known)
    assert net is not None
    return Teacher(place(extract(net, net.space.largest()), job.config.training))


@lru_cache(maxsize=1)
def _known_logits(weights: str, precision: str, device: str) -> dict[bytes, Tensor]:
    """The logits of the last teacher that this process used, for the next student that reads the same batches."""
    return {}


def _write(job: RetrainJob, prepared: Prepared, trainer: Trainer, progress: Progress) -> Subnet:
    """Measure the result on the whole validation split and write its folder."""
    task, recipe = tasks.get(job.run.config().task), trainer.recipe
    with trainer.averaged() as model:
        assert isinstance(model, Transformer)
        metrics = score(model, job.subnet.arch, task, prepared, recipe, full=True)
        settings: dict[str, Any] = {**job.config.facts(), "steps": progress.step, "tokens": progress.tokens}
        step = HistoryStep(stage="retrain", settings=settings, metrics=finite(metrics))
        return write_derived(job.out, job.subnet, model, step)


def _clean(job: RetrainJob) -> None:
    """Delete the files that only an unfinished retraining needs."""
    shutil.rmtree(job.work / "checkpoints", ignore_errors=True)
