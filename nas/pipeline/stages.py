"""The stages of a pipeline: what each depends on, how it is done, and how it is made to be done anew."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Console

from hardware_profiles.profile import load_profile
from hardware_profiles.stored import folder_of
from nas.pipeline.config import PipelineConfig
from nas.run_dir import RunDir
from search_spaces import InputError

if TYPE_CHECKING:
    from nas.retrain_config import Asked


class StoppedError(Exception):
    """The user stopped a stage; the same command goes on with it."""


@dataclass
class Work:
    """What stages share: the config, and the subnets that the last one made."""

    config: PipelineConfig
    console: Console
    subnets: dict[str, tuple[str, ...]] = field(default_factory=dict)

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
    def do(self, work: Work) -> Sequence[str]:
        """Do it, or go on with it; gives the folders of subnets it made. Raises InputError, StoppedError."""

    def undo(self, work: Work) -> None:  # noqa: B027 - nothing by default
        """Put aside what an earlier one made, where it would be gone on with."""


class Prepare(Stage):
    """The run's folder and its data."""

    name = "prepare"

    def settings(self, config: PipelineConfig) -> Any:
        """The space, the data and the training."""
        return config.run_config().model_dump(mode="json")

    def do(self, work: Work) -> Sequence[str]:
        """Make the run, unless it is there."""
        from nas.train_command import begin

        begin(work.run.name, work.config.run_config(), work.console)
        return ()

    def undo(self, work: Work) -> None:
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

    def do(self, work: Work) -> Sequence[str]:
        """Profile what has no prices yet, and check it where asked to; other runs may rely on the prices there are."""
        from nas import profile_command

        space = str(work.run.path)
        for each in work.config.devices:
            known = profile_command.is_profiled(each.device, space)
            if known:
                work.console.print(f"{each.device} was profiled for this space before, which is kept; "
                                   "--from profile measures anew", markup=False)
            for n in [*([] if known else [None]), *([each.check] if each.check else [])]:
                done = profile_command.profile(each.device, space, each.budget, None, [], n, None, work.console)
                if done is None:
                    raise StoppedError
                work.console.print(done.table())
        return ()

    def undo(self, work: Work) -> None:
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

    def do(self, work: Work) -> Sequence[str]:
        """Train to the end."""
        from nas.train_command import train

        if not work.run.weights_path.is_file() and not train(
                space=None, task=None, data=[], run=None, settings=[], resume=work.run.name, workers=1,
                address="local", console=work.console):
            raise StoppedError
        return ()

    def undo(self, work: Work) -> None:
        """What was trained goes aside."""
        there = [work.run.path / name for name in self.FILES if (work.run.path / name).exists()]
        aside = free(work.run.path / "trainings" / "1") if there else work.run.path
        for path in there:
            aside.mkdir(parents=True, exist_ok=True)
            shutil.move(path, aside / path.name)


class Search(Stage):
    """Architectures that nothing beats."""

    name, needs = "search", ("profile", "train")

    def settings(self, config: PipelineConfig) -> Any:
        """The search's own."""
        return config.search_settings()

    def do(self, work: Work) -> Sequence[str]:
        """Search to the end."""
        from nas.search_command import Cluster, search

        settings = {} if (work.run.path / "search.yaml").is_file() else work.config.search_settings()
        found = search(work.run.name, settings, None, False, Cluster(), work.console)
        if not found.finished:
            raise StoppedError
        work.console.print(found.table())
        return ()

    def undo(self, work: Work) -> None:
        """The older search goes aside; what it evaluated is still known."""
        from nas.search_command import put_aside as aside

        aside(work.run, work.console)


class Extract(Stage):
    """The picked architectures as models of their own."""

    name, needs = "extract", ("search",)

    def settings(self, config: PipelineConfig) -> Any:
        """How they are picked."""
        return [each.model_dump() for each in config.pick]

    def do(self, work: Work) -> Sequence[str]:
        """Pick and cut out."""
        from nas.extract import extract

        made: dict[str, None] = {}
        for each in work.config.pick:
            found = extract(work.run.name, each.choice(), work.console)
            work.console.print(found.table())
            made |= dict.fromkeys(str(subnet.path) for subnet in found.subnets)
        return list(made)

    def undo(self, work: Work) -> None:
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

    def do(self, work: Work) -> Sequence[str]:
        """Retrain one after the other."""
        assert work.config.retrain is not None, "see wanted"
        asked = work.config.retrain.asked()
        return [_retrained(path, asked, work) for path in work.subnets["extract"]]

    def undo(self, work: Work) -> None:
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

    def do(self, work: Work) -> Sequence[str]:
        """Cut them out, and train them one after the other."""
        from nas.extract import extract_ends
        from nas.retrain_config import Asked

        settings = {"steps": str(work.config.all_steps())}
        ends = dict.fromkeys(str(each.path) for each in extract_ends(work.run.name, work.console).subnets)
        return [_retrained(path, Asked("scratch", "none", settings=settings, out=f"{path}-plain"), work)
                for path in ends]

    def undo(self, work: Work) -> None:
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

    def do(self, work: Work) -> Sequence[str]:
        """Write and compare every format."""
        from nas.export_command import Asked, export

        for path in work.picked:
            for each in work.config.export:
                work.console.print(export(path, Asked(each.format, each.int8), work.console).table())
        return ()


class Measure(Stage):
    """What is shipped, timed on every device."""

    name, needs = "measure", ("extract", "retrain", "plain", "profile")

    def wanted(self, config: PipelineConfig) -> bool:
        """With devices that are not estimated."""
        return config.measure and bool(measurable(config))

    def settings(self, config: PipelineConfig) -> Any:
        """Nothing of its own."""
        return None

    def do(self, work: Work) -> Sequence[str]:
        """Measure all of them in one session of each device."""
        from nas.measure_command import run

        found = run((*work.picked, *work.plain), measurable(work.config), "prefill", "1m", work.console)
        if found is None:
            raise StoppedError
        work.console.print(found.table())
        return ()


class Report(Stage):
    """The page that shows it all."""

    name = "report"
    needs = ("prepare", "profile", "train", "search", "extract", "retrain", "plain", "export", "measure")

    def settings(self, config: PipelineConfig) -> Any:
        """Nothing of its own."""
        return None

    def do(self, work: Work) -> Sequence[str]:
        """Write it."""
        from nas.report_command import report

        report(work.run.name, None)
        return ()


STAGES: tuple[Stage, ...] = (Prepare(), Profile(), Train(), Search(), Extract(), Retrain(), Plain(), Export(),
                             Measure(), Report())
"""In the order they are done."""


def measurable(config: PipelineConfig) -> list[str]:
    """The devices that can be measured on: all but estimated ones. Raises InputError for one that is unknown."""
    return [each.device for each in config.devices if not load_profile(each.device).estimated]


def _retrained(path: str, asked: Asked, work: Work) -> str:
    """The folder of a subnet after its retraining. Raises InputError, StoppedError."""
    from nas.retrain_command import retrain_one

    found = retrain_one(path, asked, work.console)
    if found is None:
        raise StoppedError
    work.console.print(found.table())
    return str(found.results[0].after.path)


def names() -> tuple[str, ...]:
    """What the stages are called."""
    return tuple(stage.name for stage in STAGES)


def after(first: str) -> list[str]:
    """A stage and those that read its results, directly or not. Raises InputError where there is none."""
    if first not in names():
        raise InputError("--from", f"{first!r} is no stage; allowed: {', '.join(names())}")
    found = [first]
    for stage in STAGES:
        if set(stage.needs) & set(found) and stage.name not in found:
            found.append(stage.name)
    return found


def put_aside(path: Path, work: Work) -> None:
    """Rename a folder so that its name is free."""
    aside = free(path.with_name(f"{path.name}-old-1"))
    path.rename(aside)
    work.console.print(f"what was in {path} is in {aside} now", markup=False)


def free(path: Path) -> Path:
    """The path, or the next one with a higher number at its end that does not exist."""
    stem = path.name.rstrip("0123456789")
    number = next(n for n in range(1, 10**6) if not path.with_name(f"{stem}{n}").exists())
    return path.with_name(f"{stem}{number}")
