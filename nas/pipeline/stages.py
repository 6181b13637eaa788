"""The stages of a pipeline: what each depends on, how it is done, and how it is made to be done anew."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Console

from hardware_profiles.device import load_profile
from hardware_profiles.profile import folder_of
from nas.core.durations import parse_time
from nas.core.progress import StageProgress
from nas.core.run_dir import RunDir
from nas.pipeline.config import PipelineConfig
from search_spaces import InputError
from search_spaces.errors import Option

if TYPE_CHECKING:
    from nas.stages.retrain.request import RetrainRequest


@dataclass
class PipelineState:
    """What stages share: the config, and the subnets that the last one made."""

    config: PipelineConfig
    console: Console
    progress: StageProgress = field(default_factory=StageProgress)
    subnets: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def show(self, result: object) -> None:
        """The result of a stage; see `nas.pipeline.command.VIEWS`."""
        self.progress.finish()
        self.progress.show(result)

    @property
    def run(self) -> RunDir:
        """The run's folder."""
        return RunDir(self.config.run)

    @property
    def picked(self) -> tuple[str, ...]:
        """The folders that are shipped: retrained where that was asked for."""
        return self.subnets.get("retrain") or self.subnets.get("extract", ())

    @property
    def plain(self) -> tuple[str, ...]:
        """The folders of what they are compared with."""
        return self.subnets.get("plain", ())

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices."""
        return tuple(each.device for each in self.config.devices)


class Stage(ABC):
    """One stage; `needs` are the stages whose results it reads."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()

    def wanted(self, config: PipelineConfig) -> bool:
        """Whether a config asks for it."""
        return True

    @abstractmethod
    def settings(self, config: PipelineConfig) -> Any:
        """What of the config decides it, as plain data."""

    @abstractmethod
    def do(self, work: PipelineState) -> Sequence[str]:
        """Do it, or go on with it; gives the folders of subnets it made. Raises InputError, Stopped."""

    def undo(self, work: PipelineState) -> None:  # noqa: B027 - nothing by default
        """Put aside what an earlier one made, where it would be gone on with."""


class Prepare(Stage):
    """The run's folder and its data."""

    name = "prepare"

    def settings(self, config: PipelineConfig) -> Any:
        """The space, the data and the training."""
        return config.run_config().model_dump(mode="json")

    def do(self, work: PipelineState) -> Sequence[str]:
        """Make the run, unless it is there."""
        from nas.stages.train.run import begin

        begin(work.run.name, work.config.run_config(), work.progress)
        return ()

    def undo(self, work: PipelineState) -> None:
        """The whole run goes aside."""
        if work.run.path.exists():
            put_aside(work.run.path, work)


class Profile(Stage):
    """A latency table of every device, with the vocabulary that the data need."""

    name, needs = "profile", ("prepare",)

    def wanted(self, config: PipelineConfig) -> bool:
        """With devices."""
        return bool(config.devices)

    def settings(self, config: PipelineConfig) -> Any:
        """The devices."""
        return [each.model_dump() for each in config.devices]

    def do(self, work: PipelineState) -> Sequence[str]:
        """Profile what has no prices yet, and check it where asked to; other runs may rely on the prices there are."""
        from nas.stages.profile.request import ProfileRequest
        from nas.stages.profile.run import is_profiled, run

        space = str(work.run.path)
        for each in work.config.devices:
            request = ProfileRequest(each.device, space, parse_time(each.budget))
            requests = [replace(request, check=True, n=each.check)] if each.check else []
            if is_profiled(each.device, space):
                work.progress.note(f"{each.device} was profiled for this space before, which is kept; "
                                   f"{Option('from')} profile measures it again")
            else:
                requests.insert(0, request)
            for each_request in requests:
                work.show(run(each_request, work.progress))
        return ()

    def undo(self, work: PipelineState) -> None:
        """The profiles go aside."""
        for name in work.devices:
            if (folder_of(name) / "profile.yaml").is_file():
                put_aside(folder_of(name), work)


class Train(Stage):
    """The supernet."""

    name, needs = "train", ("prepare",)
    FILES = ("checkpoints", "metrics.csv", "tensorboard", "supernet.safetensors")

    def settings(self, config: PipelineConfig) -> Any:
        """Nothing of its own: see `Prepare`."""
        return None

    def do(self, work: PipelineState) -> Sequence[str]:
        """Train to the end."""
        from nas.stages.train.request import TrainRequest
        from nas.stages.train.run import run

        if not work.run.weights_path.is_file():
            work.show(run(TrainRequest(resume=work.run.name), work.progress))
        return ()

    def undo(self, work: PipelineState) -> None:
        """What was trained goes aside."""
        there = [work.run.path / name for name in self.FILES if (work.run.path / name).exists()]
        aside = free(work.run.path / "trainings" / "1") if there else work.run.path
        for path in there:
            aside.mkdir(parents=True, exist_ok=True)
            shutil.move(path, aside / path.name)


class SearchStage(Stage):
    """Pareto-optimal architectures."""

    name, needs = "search", ("profile", "train")

    def settings(self, config: PipelineConfig) -> Any:
        """The search's own."""
        return config.search_settings()

    def do(self, work: PipelineState) -> Sequence[str]:
        """Search to the end."""
        from nas.stages.search.request import SearchRequest
        from nas.stages.search.run import run

        settings = {} if (work.run.path / "search.yaml").is_file() else work.config.search_settings()
        work.show(run(SearchRequest.of(work.run.name, settings), work.progress))
        return ()

    def undo(self, work: PipelineState) -> None:
        """The older search goes aside; what it evaluated is still known."""
        from nas.stages.search.run import put_aside as aside

        aside(work.run, work.progress)


class ExtractStage(Stage):
    """The picked architectures as models of their own."""

    name, needs = "extract", ("search",)

    def settings(self, config: PipelineConfig) -> Any:
        """How they are picked."""
        return [each.model_dump() for each in config.pick]

    def do(self, work: PipelineState) -> Sequence[str]:
        """Pick and cut out."""
        from nas.stages.extract.request import ExtractRequest
        from nas.stages.extract.run import run

        folders: dict[str, None] = {}
        for each in work.config.pick:
            result = run(ExtractRequest(work.run.name, each.choice()), work.progress)
            work.show(result)
            folders |= dict.fromkeys(str(subnet.path) for subnet in result.subnets)
        return list(folders)

    def undo(self, work: PipelineState) -> None:
        """Subnets of other weights go aside."""
        for path in work.subnets.get("extract", ()):
            if Path(path).exists():
                put_aside(Path(path), work)


class Retrain(Stage):
    """What was picked, trained on its own."""

    name, needs = "retrain", ("extract",)

    def wanted(self, config: PipelineConfig) -> bool:
        """Unless it is null."""
        return config.retrain is not None

    def settings(self, config: PipelineConfig) -> Any:
        """The retraining's own."""
        return config.retrain.model_dump() if config.retrain else None

    def do(self, work: PipelineState) -> Sequence[str]:
        """Retrain one after the other."""
        assert work.config.retrain is not None, "see wanted"
        return [_retrained(work.config.retrain.request(path), work) for path in work.subnets["extract"]]

    def undo(self, work: PipelineState) -> None:
        """Retrained subnets go aside."""
        for path in work.subnets.get("retrain", ()):
            if Path(path).exists():
                put_aside(Path(path), work)


class Plain(Stage):
    """The ends of the space trained from scratch, to compare with."""

    name, needs = "plain", ("profile", "train")

    def wanted(self, config: PipelineConfig) -> bool:
        """Where asked for."""
        return config.plain

    def settings(self, config: PipelineConfig) -> Any:
        """For how many steps."""
        return config.all_steps()

    def do(self, work: PipelineState) -> Sequence[str]:
        """Cut them out, and train them one after the other."""
        from nas.stages.extract.request import ExtractRequest
        from nas.stages.extract.run import run
        from nas.stages.retrain.request import RetrainRequest

        training = {"steps": work.config.all_steps()}
        result = run(ExtractRequest(work.run.name), work.progress)
        ends = dict.fromkeys(str(each.path) for each in result.subnets)
        return [_retrained(RetrainRequest(subnet=path, init="scratch", teacher="none", training=training,
                                          out=f"{path}-plain"), work) for path in ends]

    def undo(self, work: PipelineState) -> None:
        """They go aside."""
        for path in (*work.plain, *(path.removesuffix("-plain") for path in work.plain)):
            if Path(path).exists():
                put_aside(Path(path), work)


class Export(Stage):
    """What is shipped, in every format."""

    name, needs = "export", ("extract", "retrain")

    def wanted(self, config: PipelineConfig) -> bool:
        """With formats."""
        return bool(config.export)

    def settings(self, config: PipelineConfig) -> Any:
        """The formats."""
        return [each.model_dump() for each in config.export]

    def do(self, work: PipelineState) -> Sequence[str]:
        """Write and compare every format."""
        from nas.stages.export.request import ExportRequest
        from nas.stages.export.run import run

        for path in work.picked:
            for each in work.config.export:
                work.show(run(ExportRequest(path, each.format, each.int8), work.progress))
        return ()


class MeasureStage(Stage):
    """What is shipped, timed on every device."""

    name, needs = "measure", ("extract", "retrain", "plain", "profile")

    def wanted(self, config: PipelineConfig) -> bool:
        """With devices that are not estimated."""
        return config.measure and bool(measurable(config))

    def settings(self, config: PipelineConfig) -> Any:
        """Nothing of its own."""
        return None

    def do(self, work: PipelineState) -> Sequence[str]:
        """Measure all of them in one session of each device."""
        from nas.stages.measure.request import MeasureRequest
        from nas.stages.measure.run import run

        work.show(run(MeasureRequest((*work.picked, *work.plain), tuple(measurable(work.config))), work.progress))
        return ()


class ReportStage(Stage):
    """The page that shows it all."""

    name = "report"
    needs = ("prepare", "profile", "train", "search", "extract", "retrain", "plain", "export", "measure")

    def settings(self, config: PipelineConfig) -> Any:
        """Nothing of its own."""
        return None

    def do(self, work: PipelineState) -> Sequence[str]:
        """Write it."""
        from nas.core.progress import StageProgress
        from nas.stages.report.request import ReportRequest
        from nas.stages.report.run import run

        run(ReportRequest(work.run.name), StageProgress())
        return ()


STAGES: tuple[Stage, ...] = (Prepare(), Profile(), Train(), SearchStage(), ExtractStage(), Retrain(), Plain(), Export(),
                             MeasureStage(), ReportStage())
"""In the order they are done."""


def measurable(config: PipelineConfig) -> list[str]:
    """The devices that can be measured on: all but estimated ones. Raises InputError for one that is unknown."""
    return [each.device for each in config.devices if not load_profile(each.device).estimated]


def _retrained(request: RetrainRequest, work: PipelineState) -> str:
    """The folder of a subnet after its retraining. Raises InputError, Stopped."""
    from nas.stages.retrain.run import run

    result = run(request, work.progress)
    work.show(result)
    return str(result.subnets[0].after.path)


def names() -> tuple[str, ...]:
    """What the stages are called."""
    return tuple(stage.name for stage in STAGES)


def after(first: str) -> list[str]:
    """A stage and those that read its results, directly or not. Raises InputError where there is none."""
    if first not in names():
        raise InputError(Option("from"), f"{first!r} is no stage; allowed: {', '.join(names())}")
    found = [first]
    for stage in STAGES:
        if set(stage.needs) & set(found) and stage.name not in found:
            found.append(stage.name)
    return found


def put_aside(path: Path, work: PipelineState) -> None:
    """Rename a folder so that its name is free."""
    aside = free(path.with_name(f"{path.name}-old-1"))
    path.rename(aside)
    work.progress.note(f"what was in {path} is in {aside} now")


def free(path: Path) -> Path:
    """The path, or the next one with a higher number at its end that does not exist."""
    stem = path.name.rstrip("0123456789")
    number = next(n for n in range(1, 10**6) if not path.with_name(f"{stem}{n}").exists())
    return path.with_name(f"{stem}{number}")
