"""Every stage as a function, for programs and notebooks, with the names of the command line.

Runs and subnets are named as on the command line, by a path, or by what another function returned. Settings are
ordinary values. Nothing is printed unless a rich `console` is given.

Every function raises InputError with a sentence for the user, and Stopped if Ctrl-C stopped it; call it again to
resume. Importing this module loads no torch: every function imports its stage.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nas.core.progress import StageProgress
from nas.core.stopping import Stopped as Stopped

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from hardware_profiles import LatencyModel
    from nas.core.fronts import FrontEntry
    from nas.core.run_dir import RunDir
    from nas.core.subnet import Subnet
    from nas.stages.export.run import Exported
    from nas.stages.rank.statistics import RankingReport
    from nas.stages.search.request import SearchCluster
    from nas.stages.search.run import SearchResult
    from nas.tasks.answering import Answer
    from nas.tasks.classification import Labelled
    from nas.terminal.progress import TerminalProgress

    Name = str | os.PathLike[str] | RunDir | Subnet
Settings = Mapping[str, Any]


def train(space: Name, task: str | None, run: Name, data: Settings | None = None, training: Settings | None = None, *,
          init: Name | None = None, check: bool = True, workers: int = 1, ray: str = "local",
          console: Console | None = None) -> RunDir:
    """Train the supernet of a space, or resume a run.

    Args:
        space: a shipped space or a YAML file.
        task: None for that of `init`.
        data: such as `{"train": "my.txt"}`; by default those of `init`, or the bundled sample data.
        training: such as `{"steps": 2000}`.
        init: a subnet or a finished run whose model initialises and teaches the supernet.
        check: whether to report rarely trained tensors, and how much single architectures improve in a few more steps.
    """
    from nas.core.run_dir import RunDir
    from nas.stages.train.request import TrainRequest
    from nas.stages.train.run import run as stage
    from nas.stages.train.view import summary

    name = _name(run)
    request = TrainRequest(space=_name(space), task=task, run=name, data=data or {}, training=training or {},
                           init=None if init is None else _name(init),
                           resume=name if RunDir(name).config_path.is_file() else None, check=check,
                           workers=workers, ray=ray)
    with _progress(console) as progress:
        result = stage(request, progress)
        for line in summary(result):
            progress.note(line)
    return result.run


def evaluate(of: Name, arch: Name | None = None, split: str = "valid",
             limit: int | None = None) -> dict[str, dict[str, float]]:
    """Every metric of the task, by architecture: the smallest and largest of a run, one architecture, or a subnet."""
    from nas.stages.evaluate.request import EvaluateRequest
    from nas.stages.evaluate.run import run

    return run(EvaluateRequest(_name(of), None if arch is None else _name(arch), split, limit), StageProgress())


def rank(run: Name, n: int = 20, steps: int | None = None, *, workers: int = 1, ray: str = "local",
         console: Console | None = None) -> RankingReport:
    """Report how well a supernet ranks architectures, compared with training them from scratch.

    Args:
        n: number of architectures to train from scratch.
        steps: of each; by default those of the supernet.
        workers: number of parallel training runs on a Ray cluster.
    """
    from nas.stages.rank.request import RankRequest
    from nas.stages.rank.run import run as stage

    with _progress(console) as progress:
        return stage(RankRequest(_name(run), n, steps, workers, ray), progress)


def devices(check: bool = False) -> list[dict[str, Any]]:
    """The shipped devices and those profiled here, and whether each is available.

    Args:
        check: also contact remote devices; takes a few seconds each.
    """
    from nas.stages.devices.request import DevicesRequest
    from nas.stages.devices.run import run

    return run(DevicesRequest(check), StageProgress())


def profile(device: Name, space: Name, budget: str = "3m", *, out: Name | None = None, phases: Sequence[str] = (),
            console: Console | None = None) -> LatencyModel:
    """Measure the latency table of a device (a shipped one or a YAML file) for a space or a run."""
    from hardware_profiles import LatencyModel
    from nas.core.durations import parse_time
    from nas.core.run_dir import RunDir
    from nas.stages.profile.request import ProfileRequest
    from nas.stages.profile.run import run

    of = str(space.path) if isinstance(space, RunDir) else _name(space)
    request = ProfileRequest(_name(device), of, parse_time(budget), _path(out), tuple(phases))
    with _progress(console) as progress:
        return LatencyModel.load(run(request, progress).folder)


def search(run: Name, settings: Settings | None = None, *, more: int | None = None, fresh: bool = False,
           cluster: SearchCluster | None = None, console: Console | None = None) -> SearchResult:
    """Search a trained run, or resume its search.

    Args:
        settings: such as `{"trials": 200, "devices": ["cpu"], "max": ["latency:cpu=12ms"]}`.
        more: number of trials to add.
        fresh: archive an older search and start a new one; its evaluations are reused.
        cluster: a Ray cluster that evaluates.
    """
    from nas.stages.search.request import SearchRequest
    from nas.stages.search.run import run as stage
    from nas.stages.search.view import feasibility_table

    request = SearchRequest.of(_name(run), settings or {}, more, fresh, cluster)
    with _progress(console, feasibility_table) as progress:
        return stage(request, progress)


def pareto(run: Name, device: str | None = None) -> list[FrontEntry]:
    """The Pareto-optimal architectures, with their metrics and costs; the cheapest first."""
    from nas.core.evaluated import read_evaluated
    from nas.core.fronts import front
    from nas.core.run_dir import RunDir

    searched = read_evaluated(RunDir.open(_name(run)), device)
    return front(searched.entries, searched.objectives, device)


def extract(run: Name, *, key: str | None = None, knee: bool = False, top: int | None = None, all_pareto: bool = False,
            max: Iterable[str] = (), min: Iterable[str] = (), device: str | None = None,
            console: Console | None = None) -> list[Subnet]:
    """Extract selected architectures as plain models, with the same outputs; the best or cheapest first."""
    from nas.core.picking import Choice
    from nas.stages.extract.request import ExtractRequest
    from nas.stages.extract.run import run as stage

    choice = Choice(key, knee, top, all_pareto, tuple(max), tuple(min), device)
    with _progress(console) as progress:
        return stage(ExtractRequest(_name(run), choice), progress).subnets


def retrain(subnet: Name, training: Settings | None = None, *, init: str = "inherit", teacher: Name = "supernet",
            distill: str | Sequence[str] | None = None, theseus: bool = False, out: Name | None = None,
            task: str | None = None, data: Settings | None = None, run: Name | None = None,
            console: Console | None = None) -> Subnet:
    """Retrain a subnet, with the supernet, another subnet or no model as teacher.

    Args:
        task: fine-tunes it for this task, with a new head if it needs one; for imported models.
        data: of that task, such as `{"train": "my.tsv"}`; by default the bundled sample data.
        run: the run that holds these data and the result; by default SUBNET-TASK.
    """
    from nas.stages.retrain.request import RetrainRequest
    from nas.stages.retrain.run import run as stage

    losses = tuple(distill.split(",")) if isinstance(distill, str) else None if distill is None else tuple(distill)
    request = RetrainRequest(subnet=_name(subnet), init=init, teacher=_name(teacher), distill=losses, theseus=theseus,
                             training=training or {}, out=None if out is None else _name(out), task=task,
                             data=data or {}, run=None if run is None else _name(run))
    with _progress(console) as progress:
        return stage(request, progress).subnets[0].after


def compress(subnet: Name, technique: Settings, training: Settings | None = None, *, out: Name | None = None,
             console: Console | None = None) -> Subnet:
    """Make a subnet smaller.

    Args:
        technique: the options of `nas compress` and the technique's settings, such as `{"int8": True}` or
            `{"prune": 0.5, "rewind": True, "rounds": 2}`.
        training: settings of the training step, such as `{"steps": 100}`.
    """
    from nas.stages.compress.request import CompressRequest
    from nas.stages.compress.run import run
    from nas.stages.compress.techniques import make_technique

    given = {name: value for name, value in technique.items() if value is not None and value is not False}
    request = CompressRequest(_name(subnet), make_technique(given), training or {}, _path(out))
    with _progress(console) as progress:
        return run(request, progress).after


def import_model(source: str | os.PathLike[str], out: Name | None = None, *, head: str | None = None,
                 context: int | None = None, console: Console | None = None) -> Subnet:
    """Import a pretrained model as a subnet: a folder, or a name on the Hugging Face Hub."""
    from nas.stages.import_model.request import ImportRequest
    from nas.stages.import_model.run import run

    request = ImportRequest(os.fspath(source), _path(out), head, context)
    with _progress(console) as progress:
        return run(request, progress).subnet


def space_from(subnet: Name, out: Name | None = None, *, keep: Sequence[str] = (), least: float = 0.3,
               classes: int | None = None, uniform: bool = False, choices: int = 4) -> Path:
    """Write a search space around a model, whose largest architecture is the model, and return its file."""
    from nas.stages.space_from.request import SpaceFromRequest
    from nas.stages.space_from.run import run

    return run(SpaceFromRequest(_name(subnet), _path(out), tuple(keep), least, classes, uniform,
                                choices)).path


def prune_to(subnet: Name, max: Iterable[str] = (), method: str | None = None, *, layers: str | Sequence[str] = (),
             score: str | None = None, out: Name | None = None, console: Console | None = None) -> Subnet:
    """Prune a subnet to limits without a search, as a baseline for one.

    Args:
        max: limits, such as `["latency:cpu=12ms"]`.
        method: uniform, layers or importance.
        layers: the layers to keep, such as `"0,2,5"`.
        score: the importance of channels and heads: activation or taylor.
    """
    from nas.stages.prune_to.request import PruneToRequest
    from nas.stages.prune_to.run import run

    listed = (layers,) if isinstance(layers, str) else tuple(layers)
    request = PruneToRequest(_name(subnet), tuple(max), method, listed, score, _path(out))
    with _progress(console) as progress:
        return run(request, progress).after


def export(subnet: Name, format: str, *, int8: bool = False, out: Name | None = None, length: int | None = None,
           max_loss_increase: float | None = None, no_decoder: bool = False, pad: bool = False,
           console: Console | None = None) -> Exported:
    """Export a subnet to onnx, executorch, torch-export, huggingface or gguf; checked against the plain model.

    Args:
        pad: pad layers with zeros to equal sizes, so that a stock class of transformers can hold the model.
    """
    from nas.stages.export.request import ExportRequest
    from nas.stages.export.run import run

    request = ExportRequest(_name(subnet), format, int8, _path(out), length, max_loss_increase, no_decoder,
                            pad)
    with _progress(console) as progress:
        return run(request, progress)


def measure(subnets: Sequence[Name], devices: Sequence[Name], phase: str = "prefill", budget: str = "1m", *,
            console: Console | None = None) -> list[dict[str, Any]]:
    """Measure whole subnets on profiled devices and compare with predictions."""
    from nas.core.durations import parse_time
    from nas.stages.measure.request import MeasureRequest
    from nas.stages.measure.run import run

    request = MeasureRequest(tuple(map(_name, subnets)), tuple(map(_name, devices)), phase, parse_time(budget))
    with _progress(console) as progress:
        return [subnet.to_dict() for subnet in run(request, progress).measured]


def compare(subnets: Sequence[Name], devices: Sequence[Name] = (), *, phase: str = "prefill", budget: str = "1m",
            split: str = "valid", limit: int | None = None, seq_len: int | None = None, out: Name | None = None,
            console: Console | None = None) -> list[dict[str, Any]]:
    """Compare subnets and imported models: quality, cost and measured latency; writes a table and a plot.

    Args:
        devices: profiled devices on which the models are timed.
        limit: number of examples to evaluate on; all by default.
        seq_len: sequence length for multiply-adds.
        out: folder of the files; by default comparison.
    """
    from nas.core.durations import parse_time
    from nas.stages.compare.request import DEFAULT_OUT, CompareRequest
    from nas.stages.compare.run import run

    request = CompareRequest(tuple(map(_name, subnets)), tuple(map(_name, devices)), phase, parse_time(budget), split,
                             limit, seq_len, _path(out) or Path(DEFAULT_OUT))
    with _progress(console) as progress:
        models: list[dict[str, Any]] = run(request, progress).to_dict()["models"]
    return models


def generate(subnet: Name, text: str, tokens: int = 100, *, temperature: float = 0.8, top_k: int | None = None,
             seed: int | None = None) -> str:
    """Generate text after a prompt."""
    from nas.stages.use.request import GenerateRequest
    from nas.stages.use.run import generate as stage

    return stage(GenerateRequest(_name(subnet), text, tokens, temperature, top_k, seed), StageProgress()).text


def predict(subnet: Name, texts: Sequence[str]) -> list[Answer]:
    """The prediction of a model for each text: a class, a number or another result of its task."""
    return _answers(subnet, texts)


def classify(subnet: Name, texts: Sequence[str]) -> list[Labelled]:
    """The class of each text, and its probability."""
    return cast("list[Labelled]", _answers(subnet, texts, "classify"))


def translate(subnet: Name, texts: Sequence[str]) -> list[str]:
    """The translation of each text."""
    return [answer.line for answer in _answers(subnet, texts, "translate")]


def report(run: Name, out: Name | None = None) -> Path:
    """Write the report of a run."""
    from nas.stages.report.request import ReportRequest
    from nas.stages.report.run import run as stage

    return stage(ReportRequest(_name(run), _path(out)), StageProgress()).page


def _answers(subnet: Name, texts: Sequence[str], command: str | None = None) -> list[Answer]:
    from nas.stages.use.request import PredictRequest
    from nas.stages.use.run import predict as stage

    return list(stage(PredictRequest(_name(subnet), texts, command), StageProgress()))


def _name(given: Name) -> str:
    """The name as on the command line; a path stays a path, even without a folder."""
    from nas.core.run_dir import RunDir
    from nas.core.subnet import Subnet

    if isinstance(given, RunDir):
        return given.name
    if isinstance(given, Subnet):
        return str(given.path)
    text = os.fspath(given)
    return text if isinstance(given, str) or os.sep in text else os.path.join(os.curdir, text)


def _path(given: Name | None) -> Path | None:
    return None if given is None else Path(_name(given))


def _progress(console: Console | None, view: Callable[[Any], RenderableType] | None = None) -> TerminalProgress:
    from rich.console import Console

    from nas.terminal.progress import TerminalProgress

    return TerminalProgress(console or Console(quiet=True), view)
