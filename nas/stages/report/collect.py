"""Reads all data of a run's report. Nothing is trained, evaluated or measured;
profiles give the latency of single layers."""

from __future__ import annotations

from dataclasses import replace

from nas import tasks
from nas.core.data_index import fitted_space
from nas.core.measures import devices_of, parse_measure
from nas.core.run_dir import RunDir
from nas.stages.report.judged import split_size
from nas.stages.report.priced import read_devices
from nas.stages.report.searched import read_searched
from nas.stages.report.shown import Devices, RunReport
from nas.stages.report.trained import read_curves, read_picked, read_ranked
from search_spaces.files.reading import read_text

FILES = ("manifest.json", "config.yaml", "space.yaml", "search.yaml", "events.jsonl")
"""Files that a report includes."""


def collect(run: RunDir) -> RunReport:
    """Everything a report shows. Raises InputError if a file is damaged."""
    config, space = run.config(), fitted_space(run)
    run.read_manifest()
    task = tasks.get(config.task)
    report = RunReport(
        run=run.path.name, space=space.name, task=config.task, metrics=task.metrics,
        slots={name: stack.slots for name, stack in space.stacks.items()}, searched=read_searched(run, space, task),
        devices=Devices(), picked=read_picked(run), curves=read_curves(run, split_size(run, space)),
        ranked=read_ranked(run),
        files={name: read_text(path) for name in FILES if (path := run.path / name).is_file()})
    costs = list(report.searched.costs) if report.searched else []
    costs += [parse_measure(name, {}) for subnet in report.picked for name in subnet.measured]
    return replace(report, devices=read_devices(devices_of(costs), report.architectures(), report.picked))
