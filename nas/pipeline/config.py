"""The schema of a pipeline file: the settings of every stage. `reading.py` reads it, `checking.py` checks it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nas import tasks
from nas.core.config import DataOptions, RunConfig, make_recipe, make_run_config
from nas.core.picking import Choice
from nas.core.training_budget import with_steps
from nas.stages.retrain.config import retrain_recipe
from nas.stages.retrain.request import RetrainRequest
from supernet.train.recipe import Recipe


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DevicePart(_Part):
    """A device to profile, to search for and to measure on."""

    device: str = Field(description="a shipped device (see nas devices) or a YAML file")
    budget: str = Field("3m", description="time budget of the whole profile, including compilation")
    check: int = Field(0, ge=0, description="number of whole models to compare predictions with: 4 or more; 0: none")


class PickPart(_Part):
    """Which architectures to extract after the search; see nas extract."""

    max: tuple[str, ...] = Field((), description="upper limits, such as latency:cpu=12ms; selects the best within them")
    min: tuple[str, ...] = Field((), description="lower limits")
    knee: bool = Field(False, description="the knee of the front")
    top: int | None = Field(None, ge=1, description="number of best architectures")
    all_pareto: bool = Field(False, description="the whole front")
    device: str | None = Field(None, description="device whose front is used")

    def choice(self) -> Choice:
        """The selection for the extraction. Raises InputError unless exactly one is given."""
        choice = Choice(**self.model_dump())
        choice.check()
        return choice


class RetrainPart(_Part):
    """How selected subnets are retrained; see nas retrain."""

    init: Literal["inherit", "model", "scratch"] = Field("inherit", description="initial weights")
    teacher: str = Field("supernet", description="supernet, none, or a subnet's folder")
    distill: str | None = Field(None, description="logits, features, attention, separated by commas")
    theseus: bool = Field(False, description="replace the layers of a larger model one by one (BERT-of-Theseus)")
    training: dict[str, Any] = Field(default_factory=dict, description="training settings (see nas settings)")

    def request(self, subnet: str) -> RetrainRequest:
        """The settings of a retraining."""
        losses = None if self.distill is None else tuple(self.distill.split(","))
        return RetrainRequest(subnet=subnet, **{**self.model_dump(), "distill": losses})

    def recipe(self, base: Recipe) -> Recipe:
        """Its training recipe, derived from the supernet's, `base`. Raises InputError."""
        return retrain_recipe(base, {name: value for name, value in self.training.items()
                                     if name in Recipe.model_fields})


class ExportPart(_Part):
    """An export format; see nas export."""

    format: str = Field(description="an export format, such as onnx (see nas export)")
    int8: bool = Field(False, description="quantised")
    no_decoder: bool = Field(False, description="omit the decoder, for models that cannot decode token by token")

    def digested(self) -> dict[str, Any]:
        """The settings that its results depend on; an option that earlier versions lack counts only if it is set."""
        return self.model_dump(exclude=None if self.no_decoder else {"no_decoder"})


class PipelineConfig(_Part):
    """Everything that `nas run` does."""

    schema_version: Literal[1] = 1
    run: str = Field(description="name of the run; everything is written to runs/NAME")
    space: str = Field(description="a shipped space or a YAML file")
    task: str = Field(description="a task, such as lm or classification (see nas train)")
    data: DataOptions = Field(default_factory=dict, description="data options (see nas train); empty: the bundled "
                                                                "sample "
                                                                "data")
    training: dict[str, Any] = Field(default_factory=dict, description="training settings (see nas settings)")
    devices: tuple[DevicePart, ...] = Field((), description="devices to profile, search for and measure on")
    search: dict[str, Any] = Field(default_factory=dict, description="search settings: trials, max, sampler, ... (see "
                                                                     "nas search)")
    pick: tuple[PickPart, ...] = Field((PickPart(knee=True),), min_length=1,
                                       description="which architectures to extract; one selection, or a list of them")
    retrain: RetrainPart | None = Field(RetrainPart(), description="how to retrain the extracted models; null: no "
                                                                   "retraining")
    plain: bool = Field(False, description="whether to train the smallest and largest architecture from scratch for "
                                           "comparison, for as many steps as supernet and retraining together")
    export: tuple[ExportPart, ...] = Field((), description="export formats")
    measure: bool = Field(True, description="whether to measure the models on every device that is not estimated")

    @field_validator("data", mode="before")
    @classmethod
    def _no_words_as_switches(cls, value: Any) -> Any:
        """`no` and `on` are booleans in YAML: they need quotes; `header` is a switch."""
        for key, part in value.items() if isinstance(value, dict) else ():
            if isinstance(part, bool) and key != "header":
                raise ValueError(f"{key} is read as {str(part).lower()} by YAML; put it in quotes")
        return value

    @field_validator("pick", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return [value] if isinstance(value, dict | PickPart) else value

    def run_config(self) -> RunConfig:
        """The config of the training; the check of the file reports an unknown task."""
        base = tasks.get(self.task).recipe if self.task in tasks.names() else None
        recipe = make_recipe(with_steps(self.training, self.space, base), base)
        return make_run_config(self.space, self.task, self.data, recipe)

    def all_steps(self) -> int:
        """Total steps of the supernet's training and of the retraining."""
        base = self.run_config().training
        return base.steps + (self.retrain.recipe(base).steps if self.retrain else 0)

    def search_settings(self) -> dict[str, Any]:
        """The settings of the search; without objectives, its default ones."""
        return {"devices": tuple(device.device for device in self.devices), **self.search}
