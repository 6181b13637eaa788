"""`nas retrain`: one subnet or several, here or on a cluster, with something to look at meanwhile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from nas.bar import WorkBar
from nas.progress import Bar, interruptible
from nas.retrain import Job, Retrained, make_job, retrain
from nas.retrain_config import Asked
from nas.run_dir import RunDir
from nas.subnet import Subnet, subnets_in
from nas.tables import table
from nas.tasks.base import Prepared
from nas.train import Stop, prepare
from search_spaces import InputError


@dataclass(frozen=True)
class Cluster:
    """Where several subnets are retrained: one after the other here, or at once on the Ray cluster at `address`."""

    address: str | None = None
    concurrency: int | None = None

    @property
    def options(self) -> list[str]:
        """As the user gave them."""
        more = ["--concurrency", str(self.concurrency)] if self.concurrency else []
        return ["--ray", self.address, *more] if self.address else []


@dataclass(frozen=True)
class Finished:
    """What all retrainings made."""

    results: list[Retrained]

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {"subnets": [{
            "key": each.after.arch.key, "folder": str(each.after.path), "from": str(each.before.path),
            "before": each.before.facts.metrics, "metrics": each.after.facts.metrics,
            "settings": each.after.facts.made[-1].settings} for each in self.results]}

    def table(self) -> RenderableType:
        """For a reader."""
        names = list(self.results[0].after.facts.metrics)
        columns = [column for name in names for column in (f"{name} before", name)]
        made = table("subnet", *columns, "folder", right=tuple(columns))
        for each in self.results:
            values = [subnet.facts.metrics.get(name) for name in names for subnet in (each.before, each.after)]
            made.add_row(each.before.path.resolve().name, *(f"{math.nan if value is None else value:.4f}"
                                                            for value in values), str(each.after.path))
        first = self.results[0].after.path
        return Group(made, Text(f"ship it: nas export {first} --format onnx", no_wrap=True, overflow="ignore"))


def retrain_one(name: str, asked: Asked, console: Console) -> Finished | None:
    """Retrain a subnet; None where it was stopped before the end. Raises InputError."""
    subnet = Subnet.open(name)
    prepared = subnet.prepared()
    job = make_job(subnet, prepared, asked)
    with interruptible(console) as stop:
        found = _run(job, prepared, console, stop)
    if found is None:
        _say(console, f"stopped after step {job.step:,}; go on with the same command: {asked.command(name)}")
        return None
    return Finished([found])


def retrain_best(name: str, top: int, asked: Asked, where: Cluster, console: Console) -> Finished | None:
    """Retrain the best extracted subnets of a run; None where it was stopped before the end. Raises InputError."""
    if asked.out is not None:
        raise InputError("--out", "names the folder of one result; leave it out with --top")
    run = RunDir.open(name)
    subnets, prepared = best_subnets(run, top), prepare(run)
    if len(subnets) < top:
        _say(console, f"note: {len(subnets)} extracted subnets are all there are")
    jobs = [make_job(subnet, subnet.prepared(), asked) for subnet in subnets]
    with interruptible(console) as stop:
        found = _run_all(jobs, prepared, where, console, stop)
    if len(found) < len(jobs):
        command = asked.command(name, "--top", str(top), *where.options)
        _say(console, f"stopped after {len(found)} of {len(jobs)} subnets; go on with the same command: {command}")
        return None
    return Finished(found)


def best_subnets(run: RunDir, top: int) -> list[Subnet]:
    """The extracted subnets of a run with the least loss. Raises InputError where there are none."""
    found = [subnet for subnet in map(Subnet.open, map(str, subnets_in(run.path)))
             if subnet.facts.made and subnet.facts.made[-1].stage == "extract"]
    if not found:
        raise InputError(str(run.path), f"has no extracted subnets; run nas extract {run.name} --top {top}")

    def loss(subnet: Subnet) -> float:
        value = subnet.facts.metrics.get("loss")
        return math.inf if value is None else value

    return sorted(found, key=loss)[:top]


def _run_all(jobs: Sequence[Job], prepared: Prepared, where: Cluster, console: Console, stop: Stop) -> list[Retrained]:
    if where.address is not None:
        return _run_on_ray(jobs, prepared, where, console, stop)
    found: list[Retrained] = []
    for job in jobs:
        done = None if stop() else _run(job, prepared, console, stop)
        if done is None:
            break
        found.append(done)
    return found


def _run(job: Job, prepared: Prepared, console: Console, stop: Stop) -> Retrained | None:
    """One retraining with a bar, and what is to be said of it."""
    name, steps = job.subnet.path.resolve().name, job.config.training.steps
    if job.result is not None:
        _say(console, f"{name} is retrained already")
        return retrain(job, prepared)
    if job.step:
        _say(console, f"going on after step {job.step:,} of {steps:,}")
    bar = Bar(console, steps, job.step, f"retraining {name}")
    with bar.bar:
        found = retrain(job, prepared, bar, stop)
    progress = found.progress if found else None
    if progress is not None:
        if progress.stopped_early:
            _say(console, f"stopped early: no better loss since step {progress.best_step:,}")
        if job.config.training.patience and progress.best_loss is not None:
            _say(console, f"the weights are those of step {progress.best_step:,}, the best evaluation")
        if progress.skipped:
            _say(console, f"{progress.skipped:,} steps had no finite gradient and were skipped")
        _say(console, f"curves: {job.work}/metrics.csv, or tensorboard --logdir {job.work}/tensorboard")
    return found


def _run_on_ray(jobs: Sequence[Job], prepared: Prepared, where: Cluster, console: Console,
                stop: Stop) -> list[Retrained]:
    from nas.cluster import cluster, in_parallel

    assert where.address is not None
    on_gpu, calls = jobs[0].config.training.device != "cpu", [(job.anywhere(),) for job in jobs]
    found: dict[str, Retrained] = {}
    with cluster(where.address, where.concurrency or 1, option="--concurrency"), WorkBar(console) as bar:
        task = bar.add(f"retraining {len(jobs)} subnets", len(jobs))
        for done in in_parallel(retrain, calls, prepared, where.concurrency or len(jobs), on_gpu, stop):
            found[done.before.path.name] = done
            bar.move(task)
    done_here = ((job, found.get(job.subnet.path.name)) for job in jobs)
    return [Retrained(job.subnet, replace(done.after, path=job.out), done.progress) for job, done in done_here if done]


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)
