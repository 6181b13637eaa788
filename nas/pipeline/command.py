"""`nas run`: go through the stages, skip what is done, go on with what was begun, and tell how long each took."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console, RenderableType
from rich.text import Text

from nas.pipeline.config import PipelineConfig
from nas.pipeline.estimate import estimates
from nas.pipeline.outcome import Done, shown_time
from nas.pipeline.reading import read_pipeline
from nas.pipeline.record import Entry, Record
from nas.pipeline.stages import STAGES, Stage, Work, after
from nas.run_dir import RunDir
from nas.tables import table

Does = Literal["done already", "goes on", "to do", "to do anew"]
BEGINS = {"done already": "skipped: done already", "goes on": "goes on", "to do": "begins", "to do anew": "begins anew"}
"""What is said when it is a stage's turn."""


@dataclass(frozen=True)
class Step:
    """A stage of a plan, and what will become of it."""

    stage: Stage
    inputs: str
    does: Does


@dataclass(frozen=True)
class Plan:
    """What a call would do."""

    config: PipelineConfig
    record: Record
    steps: tuple[Step, ...]

    def rows(self) -> list[dict[str, Any]]:
        """For a program: each stage, what becomes of it, and how long that may take."""
        guesses = estimates(self.config) if any(step.does != "done already" for step in self.steps) else {}
        return [{"stage": step.stage.name, "does": step.does, "seconds": self._seconds(step, guesses)}
                for step in self.steps]

    def _seconds(self, step: Step, guesses: dict[str, float]) -> float:
        known = self.record.get(step.stage.name)
        if step.does == "done already":
            return 0.0
        if known is not None and known.state != "begun" and known.inputs == step.inputs and known.seconds:
            return known.seconds
        return guesses.get(step.stage.name, 0.0)


def make_plan(config: PipelineConfig, first: str | None = None) -> Plan:
    """What would be done, from the stage `first` on anew. Raises InputError."""
    again = after(first) if first is not None else []
    record, steps = Record(RunDir(config.run).path), []
    digests: dict[str, str] = {}
    for stage in STAGES:
        if not stage.wanted(config):
            continue
        before = {name: digests[name] for name in stage.needs if name in digests}
        text = json.dumps([stage.name, stage.settings(config), before], sort_keys=True, default=str)
        digests[stage.name] = hashlib.sha256(text.encode()).hexdigest()[:16]
        steps.append(Step(stage, digests[stage.name], _does(stage, digests[stage.name], record, stage.name in again)))
    return Plan(config, record, tuple(steps))


def _does(stage: Stage, inputs: str, record: Record, again: bool) -> Does:
    known = record.get(stage.name)
    if known is None:
        return "to do anew" if again else "to do"
    if again or known.state == "again" or known.inputs != inputs:
        return "to do anew"
    return "done already" if known.state == "done" else "goes on"


def run(path: str, first: str | None, dry: bool, console: Console) -> Plan | Done:
    """Do all stages of a config's file, or tell what would be done.

    Raises:
        InputError: the file or a stage's input is wrong.
        StoppedError: the user stopped it.
    """
    plan = make_plan(read_pipeline(Path(path), anew=first == "prepare"), first)
    if dry:
        return plan
    work = Work(plan.config, console)
    plan.record.again(step.stage.name for step in plan.steps if step.does == "to do anew")
    took = []
    for place, step in enumerate(plan.steps, 1):
        name = step.stage.name
        console.print(Text(f"[{place}/{len(plan.steps)}] {name}: {BEGINS[step.does]}", style="bold"))
        took.append((name, _do(step, plan.record, work)))
    return Done(took, work.picked, work.plain, work.run.path / "report.html")


def _do(step: Step, record: Record, work: Work) -> float:
    """One stage; the seconds it took in this call. What was made before a kill is kept."""
    name, start = step.stage.name, time.monotonic()
    known = record.get(name)
    if known is not None:
        work.subnets[name] = known.output
        if step.does == "done already":
            return 0.0
    if step.does == "to do anew":
        step.stage.undo(work)
        work.subnets.pop(name, None)
    before = known.seconds if known is not None and step.does == "goes on" else 0.0
    record.put(name, Entry(inputs=step.inputs, state="begun", seconds=before))
    try:
        made = step.stage.do(work)
    finally:
        seconds = time.monotonic() - start
        record.put(name, Entry(inputs=step.inputs, state="begun", seconds=before + seconds))
    work.subnets[name] = tuple(made)
    record.put(name, Entry(inputs=step.inputs, state="done", seconds=before + seconds, output=tuple(made)))
    return seconds


def plan_table(plan: Plan) -> RenderableType:
    """What would be done, for a reader."""
    made = table("stage", "what becomes of it", "about", right=("about",))
    for row in plan.rows():
        made.add_row(row["stage"], row["does"], shown_time(row["seconds"]))
    return made
