"""The stage `retrain`: trains subnets separately, here or on a cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nas.core.evaluation import prepare
from nas.core.metrics import outcome_notes
from nas.core.names import subnets_in
from nas.core.progress import StageProgress
from nas.core.run_dir import RunDir
from nas.core.stopping import Stopped
from nas.core.subnet import Subnet
from nas.stages.retrain.adapting import adapt
from nas.stages.retrain.job import Retrained, RetrainJob, make_job, retrain
from nas.stages.retrain.request import RetrainBestRequest, RetrainRequest
from nas.tasks.base import Prepared
from search_spaces import InputError
from search_spaces.errors import Command, Option


@dataclass(frozen=True)
class RetrainResult:
    """Finished retrainings, in the order of the request."""

    subnets: tuple[Retrained, ...]


def run(request: RetrainRequest | RetrainBestRequest, progress: StageProgress) -> RetrainResult:
    """Retrain one subnet, or the best ones of a run. Raises InputError, Stopped."""
    return _one(request, progress) if isinstance(request, RetrainRequest) else _best(request, progress)


def best_subnets(run: RunDir, top: int) -> list[Subnet]:
    """The extracted subnets of a run with the lowest loss. Raises InputError if there are none."""
    subnets = [subnet for subnet in map(Subnet.open, map(str, subnets_in(run.path)))
               if subnet.facts.made and subnet.facts.made[-1].stage == "extract"]
    if not subnets:
        raise InputError(str(run.path), f"has no extracted subnets; run {Command('extract', run.name, top=top)}")

    def loss(subnet: Subnet) -> float:
        value = subnet.facts.metrics.get("loss")
        return math.inf if value is None else value

    return sorted(subnets, key=loss)[:top]


def _one(request: RetrainRequest, progress: StageProgress) -> RetrainResult:
    with progress.breakable():
        if request.task is None:
            subnet = Subnet.open(request.subnet)
            prepared, adapted = subnet.prepared(), _taught(request, subnet)
        else:
            adapted, subnet, prepared = adapt(request)
            for note in prepared.notes:
                progress.note(f"note: {note}")
        job = make_job(subnet, prepared, adapted)
    try:
        return RetrainResult((_run(job, prepared, progress),))
    except Stopped as stopped:
        raise Stopped(f"{stopped.marked}; resume with: {request.command()}") from None


def _taught(request: RetrainRequest, subnet: Subnet) -> RetrainRequest:
    """Without a teacher where there is no supernet: in runs that only fine-tune a model."""
    return replace(request, teacher="none") if request.teacher == "supernet" and not subnet.run().is_begun else request


def _best(request: RetrainBestRequest, progress: StageProgress) -> RetrainResult:
    with progress.breakable():
        folder = RunDir.open(request.run)
        subnets, prepared = best_subnets(folder, request.top), prepare(folder)
        jobs = [make_job(subnet, subnet.prepared(), request.of(str(subnet.path))) for subnet in subnets]
    if len(subnets) < request.top:
        progress.note(f"note: only {len(subnets)} extracted subnets exist")
    results = _run_on_ray(jobs, prepared, request, progress) if request.ray else _run_all(jobs, prepared, progress)
    if len(results) < len(jobs):
        raise Stopped(f"stopped after {len(results)} of {len(jobs)} subnets; resume with: "
                      f"{request.command()}")
    return RetrainResult(tuple(results))


def _run_all(jobs: Sequence[RetrainJob], prepared: Prepared, progress: StageProgress) -> list[Retrained]:
    """The results until the user stopped."""
    results: list[Retrained] = []
    for job in jobs:
        try:
            results.append(_run(job, prepared, progress))
        except Stopped:
            break
    return results


def _run(job: RetrainJob, prepared: Prepared, progress: StageProgress) -> Retrained:
    name, recipe = job.subnet.path.resolve().name, job.config.training
    if job.find_result() is not None:
        progress.note(f"{name} is already retrained")
        return retrain(job, prepared)
    if progress.stop():
        raise Stopped(f"stopped after step {job.step:,}")
    if job.step:
        progress.note(f"resuming after step {job.step:,} of {recipe.steps:,}")
    result = retrain(job, prepared, progress.training(f"retraining {name}", recipe.steps, job.step), progress.stop)
    progress.finish()
    for note in outcome_notes(result.progress, recipe, job.work) if result.progress else ():
        progress.note(note)
    return result


def _run_on_ray(jobs: Sequence[RetrainJob], prepared: Prepared, request: RetrainBestRequest,
                progress: StageProgress) -> list[Retrained]:
    """The results until the user stopped."""
    from nas.core.cluster import cluster, in_parallel
    from nas.core.ray_nodes import Nodes

    assert request.ray is not None, "see _best"
    on_gpu, calls = jobs[0].config.training.device != "cpu", [(job.anywhere(),) for job in jobs]
    results: dict[str, Retrained] = {}
    with cluster(request.ray, request.concurrency or 1, option=Option("concurrency")):
        task = progress.task(f"retraining {len(jobs)} subnets", len(jobs))
        nodes = Nodes(jobs[0].run.path, "retraining")
        for one in in_parallel(retrain, calls, prepared, request.concurrency or len(jobs), on_gpu, progress.stop,
                               nodes):
            results[one.before.path.name] = one
            task.move()
    here = ((job, results.get(job.subnet.path.name)) for job in jobs)
    return [Retrained(job.subnet, replace(one.after, path=job.out), one.progress) for job, one in here if one]
