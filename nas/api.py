"""Every stage as a function, for programs and notebooks; the command line has the same ones under the same names.

Runs and subnets are named as on the command line, by a path, or by what another function gave. Settings are ordinary
values. Nothing is shown unless a `console` of rich is given.

Every function raises InputError with a sentence for the user, and KeyboardInterrupt where Ctrl-C stopped it: called
again, it goes on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from hardware_profiles import LatencyModel
from nas import use
from nas.export_command import Exported
from nas.run_dir import RunDir
from nas.search.results import Entry
from nas.search_command import Cluster, Found
from nas.subnet import Subnet

Name = str | os.PathLike[str] | RunDir | Subnet
Settings = Mapping[str, Any]
Result = TypeVar("Result")


def train(space: Name, task: str, run: Name, data: Settings | None = None, training: Settings | None = None, *,
          workers: int = 1, ray: str = "local", console: Console | None = None) -> RunDir:
    """Train the supernet of a space, or go on with a run that is there.

    Args:
        space: a shipped space or a YAML file.
        data: such as `{"train": "my.txt"}`; without, data that come along.
        training: such as `{"steps": 2000}`.
    """
    from nas.train_command import train as stage

    name = _name(run)
    known = RunDir(name).config_path.is_file()
    _whole(stage(space=_name(space), task=task, data=_texts(data), run=None if known else name,
                 settings=_texts(training), resume=name if known else None, workers=workers, address=ray,
                 console=_shown(console)) or None)
    return RunDir.open(name)


def evaluate(of: Name, arch: Name | None = None, split: str = "valid",
             limit: int | None = None) -> dict[str, dict[str, float]]:
    """Every metric of the task, by architecture: of a run's smallest and largest, of one in it, or of a subnet."""
    from nas.evaluate import evaluate as stage

    return stage(_name(of), None if arch is None else _name(arch), split, limit)


def profile(device: Name, space: Name, budget: str = "3m", *, out: Name | None = None, phases: Sequence[str] = (),
            console: Console | None = None) -> LatencyModel:
    """Measure a latency table for a device: a shipped one or a YAML file, and a space or a run."""
    from nas.profile_command import profile as stage

    of = str(space.path) if isinstance(space, RunDir) else _name(space)
    done = _whole(stage(_name(device), of, budget, None if out is None else _name(out), list(phases), None, None,
                        _shown(console)))
    return LatencyModel.load(done.folder)


def search(run: Name, settings: Settings | None = None, *, more: int | None = None, fresh: bool = False,
           cluster: Cluster | None = None, console: Console | None = None) -> Found:
    """Search a trained run, or go on with its search.

    Args:
        settings: such as `{"trials": 200, "devices": ["cpu"], "max": ["latency:cpu=12ms"]}`.
    """
    from nas.search_command import search as stage

    found = stage(_name(run), settings or {}, more, fresh, cluster or Cluster(), _shown(console))
    _whole(found.finished or None)
    return found


def pareto(run: Name, device: str | None = None) -> list[Entry]:
    """The architectures that nothing beats, with their metrics and costs; the cheapest first."""
    from nas.search.evaluated import read_evaluated
    from nas.search.results import front

    found = read_evaluated(RunDir.open(_name(run)), device)
    return front(found.entries, found.objectives, device)


def extract(run: Name, *, key: str | None = None, knee: bool = False, top: int | None = None, all_pareto: bool = False,
            max: Iterable[str] = (), min: Iterable[str] = (), device: str | None = None,
            console: Console | None = None) -> list[Subnet]:
    """Cut chosen architectures out of the supernet, each with the supernet's outputs; the best or cheapest first."""
    from nas.extract import extract as stage
    from nas.search.picking import Choice

    choice = Choice(key, knee, top, all_pareto, tuple(max), tuple(min), device)
    return stage(_name(run), choice, _shown(console)).subnets


def retrain(subnet: Name, training: Settings | None = None, *, init: str = "inherit", teacher: Name = "supernet",
            distill: str | None = None, theseus: bool = False, out: Name | None = None,
            console: Console | None = None) -> Subnet:
    """Train a subnet on its own, taught by the supernet, another subnet or nobody."""
    from nas.retrain_command import retrain_one
    from nas.retrain_config import Asked

    asked = Asked(init, _name(teacher), distill, theseus, _values(training), None if out is None else _name(out))
    return _whole(retrain_one(_name(subnet), asked, _shown(console))).results[0].after


def compress(subnet: Name, technique: Settings, training: Settings | None = None, *, out: Name | None = None,
             console: Console | None = None) -> Subnet:
    """Make a subnet smaller.

    Args:
        technique: the options of `nas compress`, such as `{"int8": True}` or `{"prune": 0.5, "rewind": True}`.
    """
    from nas.compress_command import Asked, run

    asked = Asked(technique, _values(training), None if out is None else _name(out))
    return _whole(run(_name(subnet), asked, _shown(console))).after


def export(subnet: Name, format: str, *, int8: bool = False, out: Name | None = None, length: int | None = None,
           max_loss_increase: float | None = None, console: Console | None = None) -> Exported:
    """Write a subnet as onnx, executorch, torch-export or huggingface, if that computes the same."""
    from nas.export_command import Asked
    from nas.export_command import export as stage

    asked = Asked(format, int8, None if out is None else _name(out), length, max_loss_increase)
    return stage(_name(subnet), asked, _shown(console))


def measure(subnets: Sequence[Name], devices: Sequence[Name], phase: str = "prefill", budget: str = "1m", *,
            console: Console | None = None) -> list[dict[str, Any]]:
    """Time whole subnets on profiled devices, beside what their profiles predict."""
    from nas.measure_command import run

    found = run([_name(each) for each in subnets], [_name(each) for each in devices], phase, budget, _shown(console))
    return [each.to_dict() for each in _whole(found).found]


def generate(subnet: Name, text: str, tokens: int = 100, *, temperature: float = 0.8, top_k: int | None = None,
             seed: int | None = None) -> str:
    """What a language model writes after a text."""
    return use.generate(_name(subnet), text, tokens, use.Drawing(temperature, top_k, seed)).text


def classify(subnet: Name, texts: Sequence[str]) -> list[use.Labelled]:
    """The class of each text, and how probable the model finds it."""
    return list(use.classify(_name(subnet), texts))


def translate(subnet: Name, texts: Sequence[str]) -> list[str]:
    """The translation of each text."""
    return [each.translation for each in use.translate(_name(subnet), texts)]


def report(run: Name, out: Name | None = None) -> Path:
    """Write the page that shows a run."""
    from nas.report_command import report as stage

    return stage(_name(run), None if out is None else _name(out)).page


def _name(given: Name) -> str:
    """As the command line has it; a path stays one, also without a folder in it."""
    if isinstance(given, RunDir):
        return given.name
    if isinstance(given, Subnet):
        return str(given.path)
    text = os.fspath(given)
    return text if isinstance(given, str) or os.sep in text else os.path.join(os.curdir, text)


def _values(settings: Settings | None) -> dict[str, str]:
    return {key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in (settings or {}).items()}


def _texts(settings: Settings | None) -> list[str]:
    return [f"{key}={value}" for key, value in _values(settings).items()]


def _shown(console: Console | None) -> Console:
    return console or Console(quiet=True)


def _whole(found: Result | None) -> Result:
    if found is None:
        raise KeyboardInterrupt
    return found
