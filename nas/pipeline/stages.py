"""The stages of a pipeline: dependencies, how to run them, and how their results are archived."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hardware_profiles.device import load_profile
from hardware_profiles.profile import folder_of
from nas.core.durations import parse_time
from nas.core.names import SUBNETS
from nas.core.progress import StageProgress
from nas.core.run_dir import RunDir
from nas.pipeline.config import PipelineConfig
from nas.stages.export import run as exporting
from nas.stages.export.request import ExportRequest
from nas.stages.extract import run as extracting
from nas.stages.extract.request import ExtractRequest
from nas.stages.measure import run as measuring
from nas.stages.measure.request import MeasureRequest
from nas.stages.profile import run as profiling
from nas.stages.profile.request import ProfileRequest
from nas.stages.report import run as reporting
from nas.stages.report.request import ReportRequest
from nas.stages.retrain import run as retraining
from nas.stages.retrain.request import RetrainRequest
from nas.stages.search import run as searching
from nas.stages.search.request import SearchRequest
from nas.stages.train import run as training
from nas.stages.train.request import TrainRequest
from search_spaces import InputError
from search_spaces.errors import Option

TRAINED = ("checkpoints", "metrics.csv", "tensorboard", "supernet.safetensors")
"""What a training writes to the run's folder."""


@dataclass
class PipelineState:
    """What stages share: the config, and the subnets that the last one made."""

    config: PipelineConfig
    progress: StageProgress = field(default_factory=StageProgress)
    subnets: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def show(self, result: object) -> None:
        """The result of a stage; see `nas.pipeline.view.VIEWS`."""
        self.progress.finish()
        self.progress.show(result)

    @property
    def run(self) -> RunDir:
        """The run's folder."""
        return RunDir(self.config.run)

    def subnet_names(self) -> list[str]:
        """The names of the run's subnets, without archived ones."""
        names = (path.name for path in (self.run.path / SUBNETS).glob("[!.]*"))
        return sorted(name for name in names if not re.search(r"-old-\d+$", name))

    @property
    def picked(self) -> tuple[str, ...]:
        """The folders of the final subnets, retrained if requested."""
        return self.subnets.get("retrain") or self.subnets.get("extract", ())

    @property
    def plain(self) -> tuple[str, ...]:
        """The folders of the models for comparison."""
        return self.subnets.get("plain", ())


@dataclass
class Stage:
    """One stage.

    Args:
        do: does it, or resumes it; returns the folders of subnets it made. Raises InputError, Stopped.
        needs: the stages whose results it reads.
        settings: the parts of the config that determine it, as plain data.
        wanted: whether a config asks for it.
        undo: archives the results of an earlier one, which it would otherwise resume.
    """

    name: str
    do: Callable[[PipelineState], Sequence[str] | None]
    needs: tuple[str, ...] = ()
    settings: Callable[[PipelineConfig], Any] = lambda config: None
    wanted: Callable[[PipelineConfig], bool] = lambda config: True
    undo: Callable[[PipelineState], None] = lambda work: None


def _prepare(work: PipelineState) -> None:
    training.begin(work.run.name, work.config.run_config(), work.progress)


def _profile(work: PipelineState) -> None:
    """Profile what has no latencies yet, and check it if requested; other runs may rely on the existing ones."""
    space = str(work.run.path)
    for device in work.config.devices:
        request = ProfileRequest(device.device, space, parse_time(device.budget), extend=True)
        requests = [replace(request, check=True, n=device.check)] if device.check else []
        if profiling.is_profiled(device.device, space):
            work.progress.note(f"{device.device} was already profiled for this space, and the profile is kept; "
                               f"{Option('from')} profile measures it again")
        else:
            requests.insert(0, request)
        for request in requests:
            work.show(profiling.run(request, work.progress))


def _train(work: PipelineState) -> None:
    if not work.run.weights_path.is_file():
        work.show(training.run(TrainRequest(resume=work.run.name), work.progress))


def _undo_training(work: PipelineState) -> None:
    there = [work.run.path / name for name in TRAINED if (work.run.path / name).exists()]
    aside = free(work.run.path / "trainings" / "1") if there else work.run.path
    for path in there:
        aside.mkdir(parents=True, exist_ok=True)
        shutil.move(path, aside / path.name)


def _search(work: PipelineState) -> None:
    settings = {} if (work.run.path / "search.yaml").is_file() else work.config.search_settings()
    work.show(searching.run(SearchRequest.of(work.run.name, settings), work.progress))


def _extract(work: PipelineState) -> Sequence[str]:
    folders: dict[str, None] = {}
    for pick in work.config.pick:
        result = extracting.run(ExtractRequest(work.run.name, pick.choice()), work.progress)
        work.show(result)
        folders |= dict.fromkeys(str(subnet.path) for subnet in result.subnets)
    return list(folders)


def _retrain(work: PipelineState) -> Sequence[str]:
    assert work.config.retrain is not None, "see wanted"
    return [_retrained(work.config.retrain.request(path), work) for path in work.subnets["extract"]]


def _plain(work: PipelineState) -> Sequence[str]:
    """Extract the ends of the space, and train them from scratch."""
    steps = {"steps": work.config.all_steps()}
    result = extracting.run(ExtractRequest(work.run.name), work.progress)
    ends = dict.fromkeys(str(subnet.path) for subnet in result.subnets)
    return [_retrained(RetrainRequest(subnet=path, init="scratch", teacher="none", training=steps,
                                      out=f"{path}-plain"), work) for path in ends]


def _retrained(request: RetrainRequest, work: PipelineState) -> str:
    """The folder of a subnet after its retraining."""
    result = retraining.run(request, work.progress)
    work.show(result)
    return str(result.subnets[0].after.path)


def _export(work: PipelineState) -> None:
    for path in work.picked:
        for export in work.config.export:
            request = ExportRequest(path, export.format, export.int8, no_decoder=export.no_decoder)
            work.show(exporting.run(request, work.progress))


def _measure(work: PipelineState) -> None:
    request = MeasureRequest((*work.picked, *work.plain), tuple(measurable(work.config)))
    work.show(measuring.run(request, work.progress))


def _report(work: PipelineState) -> None:
    reporting.run(ReportRequest(work.run.name), StageProgress())


def measurable(config: PipelineConfig) -> list[str]:
    """The devices that can be measured on: all but estimated ones. Raises InputError for one that is unknown."""
    return [device.device for device in config.devices if not load_profile(device.device).estimated]


def with_dependants(first: str) -> list[str]:
    """A stage and those that read its results, directly or not. Raises InputError if there is none."""
    names = [stage.name for stage in STAGES]
    if first not in names:
        raise InputError(Option("from"), f"{first!r} is not a stage; allowed: {', '.join(names)}")
    affected = [first]
    for stage in STAGES:
        if set(stage.needs) & set(affected) and stage.name not in affected:
            affected.append(stage.name)
    return affected


def archive(paths: Iterable[str | Path], work: PipelineState) -> None:
    """Rename the folders that exist, so that their names are free."""
    for path in filter(Path.exists, map(Path, paths)):
        aside = free(path.with_name(f"{path.name}-old-1"))
        path.rename(aside)
        work.progress.note(f"moved {path} to {aside}")


def free(path: Path) -> Path:
    """The path, or the next one with a higher number at its end that does not exist."""
    stem = path.name.rstrip("0123456789")
    number = next(n for n in range(1, 10**6) if not path.with_name(f"{stem}{n}").exists())
    return path.with_name(f"{stem}{number}")


STAGES = (
    Stage("prepare", _prepare, settings=lambda config: config.run_config().model_dump(mode="json"),
          undo=lambda work: archive([work.run.path], work)),
    Stage("profile", _profile, ("prepare",), lambda config: [device.model_dump() for device in config.devices],
          wanted=lambda config: bool(config.devices),
          undo=lambda work: archive([folder for device in work.config.devices if
                                     ((folder := folder_of(device.device)) / "profile.yaml").is_file()], work)),
    Stage("train", _train, ("prepare",), undo=_undo_training),
    Stage("search", _search, ("profile", "train"), PipelineConfig.search_settings,
          undo=lambda work: searching.archive(work.run, work.progress)),
    Stage("extract", _extract, ("search",), lambda config: [pick.model_dump() for pick in config.pick],
          undo=lambda work: archive(work.subnets.get("extract", ()), work)),
    Stage("retrain", _retrain, ("extract",), lambda config: config.retrain.model_dump() if config.retrain else None,
          wanted=lambda config: config.retrain is not None,
          undo=lambda work: archive(work.subnets.get("retrain", ()), work)),
    Stage("plain", _plain, ("profile", "train"), PipelineConfig.all_steps, wanted=lambda config: config.plain,
          undo=lambda work: archive([*work.plain, *(path.removesuffix("-plain") for path in work.plain)], work)),
    Stage("export", _export, ("extract", "retrain"), lambda config: [export.digested() for export in config.export],
          wanted=lambda config: bool(config.export)),
    Stage("measure", _measure, ("extract", "retrain", "plain", "profile"),
          wanted=lambda config: config.measure and bool(measurable(config))),
    Stage("report", _report,
          ("prepare", "profile", "train", "search", "extract", "retrain", "plain", "export", "measure")),
)
"""In the order they are done."""
