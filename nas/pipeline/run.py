"""`nas run`: runs the stages, skips finished ones, resumes started ones, and reports durations."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nas.core.names import SUBNETS
from nas.core.progress import StageProgress
from nas.core.run_dir import RunDir
from nas.core.stopping import Stopped
from nas.pipeline.checking import in_file
from nas.pipeline.config import PipelineConfig
from nas.pipeline.estimate import Note, estimates
from nas.pipeline.outcome import Done
from nas.pipeline.reading import read_pipeline
from nas.pipeline.record import Entry, PipelineRecord
from nas.pipeline.stages import STAGES, PipelineState, Stage, with_dependants
from search_spaces import InputError

Does = Literal["done", "resume", "run", "run again"]
BEGINS = {"done": "skipped, already done", "resume": "resuming", "run": "running", "run again": "running again"}
"""Message at the start of a stage."""


@dataclass(frozen=True)
class PlannedStage:
    """A stage of a plan, and its planned action."""

    stage: Stage
    inputs: str
    does: Does


@dataclass(frozen=True)
class PipelinePlan:
    """The plan of a call."""

    config: PipelineConfig
    record: PipelineRecord
    steps: tuple[PlannedStage, ...]

    def rows(self, note: Note = lambda _: None) -> list[dict[str, Any]]:
        """Data for JSON output: each stage, its action and estimated duration; see `estimates`."""
        guesses = estimates(self.config, note) if any(step.does != "done" for step in self.steps) else {}
        return [{"stage": step.stage.name, "does": step.does, "seconds": self._seconds(step, guesses)}
                for step in self.steps]

    def _seconds(self, step: PlannedStage, guesses: dict[str, float]) -> float:
        known = self.record.get(step.stage.name)
        if step.does == "done":
            return 0.0
        if known is not None and known.state != "begun" and known.inputs == step.inputs and known.seconds:
            return known.seconds
        return guesses.get(step.stage.name, 0.0)


def make_plan(config: PipelineConfig, first: str | None = None) -> PipelinePlan:
    """The plan; stages from `first` on are repeated. Raises InputError."""
    again = with_dependants(first) if first is not None else []
    record, steps = PipelineRecord(RunDir(config.run).path), []
    digests: dict[str, str] = {}
    for stage in STAGES:
        if not stage.wanted(config):
            continue
        before = {name: digests[name] for name in stage.needs if name in digests}
        text = json.dumps([stage.name, stage.settings(config), before], sort_keys=True, default=str)
        digests[stage.name] = hashlib.sha256(text.encode()).hexdigest()[:16]
        does = _does(stage, digests[stage.name], record, stage.name in again)
        steps.append(PlannedStage(stage, digests[stage.name], does))
    return PipelinePlan(config, record, tuple(steps))


def _does(stage: Stage, inputs: str, record: PipelineRecord, again: bool) -> Does:
    known = record.get(stage.name)
    if known is None:
        return "run again" if again else "run"
    if again or known.state == "again" or known.inputs != inputs:
        return "run again"
    return "done" if known.state == "done" else "resume"


class PipelineProgress:
    """Receives the progress of a pipeline; this one shows nothing."""

    def begin(self, text: str) -> None:
        """A stage begins."""

    def stage(self) -> AbstractContextManager[StageProgress]:
        """What the next stage reports to."""
        return nullcontext(StageProgress())


def run(path: str, first: str | None, dry: bool, progress: PipelineProgress) -> PipelinePlan | Done:
    """Run all stages of a config file, or return the plan.

    Raises:
        InputError: the file or a stage's input is wrong.
        Stopped: the user stopped it.
    """
    plan = make_plan(read_pipeline(Path(path), restart=first == "prepare"), first)
    if dry:
        return plan
    plan.record.again(step.stage.name for step in plan.steps if step.does == "run again")
    took = []
    work = PipelineState(plan.config)
    for place, step in enumerate(plan.steps, 1):
        name = step.stage.name
        progress.begin(f"[{place}/{len(plan.steps)}] {name}: {BEGINS[step.does]}")
        with progress.stage() as work.progress:
            try:
                took.append((name, _do(step, plan.record, work)))
            except InputError as error:
                raise in_file(path, name, error) from error
            if work.progress.stop():
                raise Stopped(f"stopped after {name}")
    return Done(took, work.picked, work.plain, work.run.path / "report.html")


def _do(step: PlannedStage, record: PipelineRecord, work: PipelineState) -> float:
    """Run one stage; returns its seconds in this call."""
    name, start = step.stage.name, time.monotonic()
    known = record.get(name)
    if known is not None:
        work.subnets[name] = known.output or _left_behind(known, work)
        if step.does == "done":
            return 0.0
    if step.does == "run again":
        step.stage.undo(work)
        work.subnets.pop(name, None)
    begun = known if known is not None and step.does == "resume" else Entry(
        inputs=step.inputs, state="begun", before=tuple(work.subnet_names()))
    record.put(name, begun)
    try:
        paths = tuple(step.stage.do(work) or ())
    finally:
        seconds = time.monotonic() - start
        record.put(name, begun.model_copy(update={"seconds": begun.seconds + seconds}))
    work.subnets[name] = paths
    record.put(name, Entry(inputs=step.inputs, state="done", seconds=begun.seconds + seconds, output=paths))
    return seconds


def _left_behind(entry: Entry, work: PipelineState) -> tuple[str, ...]:
    """The subnets that a stage had made when it was killed; if it runs again with other settings, it archives them."""
    if entry.before is None:
        return ()
    return tuple(str(work.run.path / SUBNETS / name) for name in work.subnet_names() if name not in entry.before)
