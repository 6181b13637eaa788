"""Reads all that is known of a run. Nothing is trained, evaluated, priced anew or measured."""

from __future__ import annotations

from dataclasses import replace

from nas import tasks
from nas.report.judged import split_size
from nas.report.priced import read_devices
from nas.report.searched import fitted_space, read_searched
from nas.report.shown import Devices, Report
from nas.report.trained import read_curves, read_picked, read_ranked
from nas.run_dir import RunDir
from nas.search.measures import devices_of, parse_measure
from search_spaces import InputError

FILES = ("manifest.json", "config.yaml", "space.yaml", "search.yaml")
"""What a report quotes."""


def collect(run: RunDir) -> Report:
    """Everything a report shows. Raises InputError where a file is damaged."""
    config, space = run.config(), fitted_space(run)
    run.read_manifest()
    task = tasks.get(config.task)
    report = Report(
        run=run.path.name, space=space.name, task=config.task, metrics=task.metrics,
        slots={name: stack.slots for name, stack in space.stacks.items()}, searched=read_searched(run, space, task),
        devices=Devices(), picked=read_picked(run), curves=read_curves(run, split_size(run, space)),
        ranked=read_ranked(run), files={name: _text(run, name) for name in FILES if (run.path / name).is_file()})
    latencies = [each for each in report.searched.costs if each.kind == "latency"] if report.searched else []
    latencies += [parse_measure(name, {}) for each in report.picked for name in each.measured]
    devices = read_devices(devices_of(latencies), report.architectures(), report.picked)
    return replace(report, devices=devices)


def _text(run: RunDir, name: str) -> str:
    path = run.path / name
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read ({error})") from None
