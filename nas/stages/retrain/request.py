"""The requests of the stage `retrain`: one subnet, or the best ones of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from search_spaces import InputError
from search_spaces.errors import Command, Option
from supernet.train.teaching import LOSSES


@dataclass(frozen=True, kw_only=True)
class RetrainSettings:
    """How a subnet is retrained.

    Args:
        init: `inherit` starts with the subnet's weights, `model` with those that the model has which its run started
            from, `scratch` with random ones.
        teacher: `supernet`, `none`, or a subnet; where there is no supernet, `supernet` means `none`.
        distill: losses that compare student and teacher; None for `logits` if there is a teacher.
        theseus: whether to replace the layers of a larger architecture one by one.
        training: settings of the distillation and of the recipe, such as `{"steps": 500}`.
    """

    init: str = "inherit"
    teacher: str = "supernet"
    distill: tuple[str, ...] | None = None
    theseus: bool = False
    training: Mapping[str, Any] = field(default_factory=dict)

    def losses(self) -> tuple[str, ...]:
        """The losses of the distillation. Raises InputError for unknown or impossible ones."""
        if self.distill is None:
            return () if self.teacher == "none" else ("logits",)
        names, where = [name.strip() for name in self.distill], Option("distill")
        for name in names:
            if name not in LOSSES:
                raise InputError(where, f"{name!r} is not allowed; allowed: {', '.join(LOSSES)}")
        if self.teacher == "none" and names:
            raise InputError(where, f"{names[0]} needs a teacher; leave out {Option('teacher')} none")
        layers = [name for name in names if name != "logits"]
        if self.theseus and layers:
            raise InputError(where, f"{layers[0]} compares all layers of the student, but with {Option('theseus')} "
                                    f"some belong to another model; use {where} logits")
        return tuple(name for name in LOSSES if name in names)

    def options(self) -> dict[str, Any]:
        """Options that differ from the defaults, for the command."""
        given = {field.name: getattr(self, field.name) for field in fields(RetrainSettings)
                 if getattr(self, field.name) != getattr(RetrainSettings(), field.name)}
        return {**given, **({"distill": ",".join(self.distill)} if self.distill is not None else {})}


@dataclass(frozen=True, kw_only=True)
class RetrainRequest(RetrainSettings):
    """One subnet to retrain.

    Args:
        subnet: its folder, or RUN/KEY, where KEY is a prefix of its key.
        out: the folder of the result; SUBNET-retrained by default.
        task: trains it for this task instead of that of its run, with a new head where it needs another.
        data: of that task, such as `{"train": "my.tsv"}`; empty for the bundled sample data.
        run: the run that holds the data of that task and the result; by default SUBNET-TASK.

    Raises:
        InputError: there are data or a run without a task.
    """

    subnet: str
    out: str | None = None
    task: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    run: str | None = None

    def __post_init__(self) -> None:
        for name in ("data", "run"):
            if self.task is None and getattr(self, name):
                raise InputError(Option(name), f"applies only to fine-tuning for another task; add {Option('task')}")
        if self.task is not None and self.theseus:
            raise InputError(Option("theseus"), f"needs a supernet; it cannot be combined with {Option('task')}")

    def command(self) -> Command:
        """The command of this request."""
        return Command("retrain", self.subnet, task=self.task, data=self.data or None, run=self.run, out=self.out,
                       **self.options())


@dataclass(frozen=True, kw_only=True)
class RetrainBestRequest(RetrainSettings):
    """The best subnets that were extracted from a run.

    Args:
        ray: the address of a Ray cluster that trains several at once; without, they are trained one after the other.
        concurrency: parallel training runs on the cluster; by default as many as fit.
    """

    run: str
    top: int
    ray: str | None = None
    concurrency: int | None = None

    def __post_init__(self) -> None:
        if self.concurrency and not self.ray:
            raise InputError(Option("concurrency"), f"needs a cluster; add {Option('ray')}")

    def of(self, subnet: str) -> RetrainRequest:
        """The request for one of them."""
        settings = {field.name: getattr(self, field.name) for field in fields(RetrainSettings)}
        return RetrainRequest(subnet=subnet, **settings)

    def command(self) -> Command:
        """The command of this request."""
        return Command("retrain", self.run, top=self.top, ray=self.ray, concurrency=self.concurrency, **self.options())
