"""A run's config: everything that determines its training, checked once and stored in the run's folder."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from search_spaces import Fault, InputError
from search_spaces.errors import Option, did_you_mean
from search_spaces.files.reading import not_allowed, read_yaml
from supernet.train.recipe import Recipe

FREE = ("device", "keep", "log_every")
"""Settings that may change when a run is resumed, because they do not affect the weights."""
OF_SUPERNETS = ("strategy", "n_random", "distill", "distill_features", "order_at", "order_score")
"""Training settings that do not apply to a single architecture."""


FINE_TUNING = Recipe(optimiser="adamw", lr=5e-5, final_lr=0.0, batch_size=32, steps=4000, warmup=400, weight_decay=0.01,
                     beta2=0.999, distill_features=0.1)
"""The defaults of runs that start from a trained model: those with which BERT and its relatives are fine-tuned. The
dropout rate is that of the model's family."""


def _data_as_text(value: Any) -> Any:
    """Numbers, switches and paths as `config.yaml` keeps them."""
    if not isinstance(value, Mapping):
        return value
    return {key: str(entry).lower() if isinstance(entry, bool) else str(entry) if isinstance(entry, int | float | Path)
            else entry for key, entry in value.items()}


DataOptions = Annotated[dict[str, str], BeforeValidator(_data_as_text)]
"""Where the data of a run are and how they are read; see `nas.tasks.options`."""


class RunConfig(BaseModel):
    """Everything that determines a training."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    space: str
    task: str
    data: DataOptions = Field(default_factory=dict)
    training: Recipe = Recipe()
    init: str | None = None
    """The subnet or run whose weights the supernet starts from."""

    def to_yaml(self) -> str:
        """The text of the config file."""
        return yaml.safe_dump(self.model_dump(), sort_keys=False, allow_unicode=True)

    def differences(self, other: RunConfig) -> Iterator[str]:
        """`key: mine, other's` of everything that changes the weights."""
        mine, theirs = _flat(self), _flat(other)
        for key in dict.fromkeys((*mine, *theirs)):
            if mine.get(key) != theirs.get(key) and key not in FREE:
                yield f"{key} is {_shown(mine.get(key))} in the run, requested: {_shown(theirs.get(key))}"


def read_config(path: Path) -> RunConfig:
    """A config from its file. Raises InputError with all faults."""
    data = read_yaml(path)
    if isinstance(data, dict) and isinstance(data.get("training"), dict):
        data["training"].setdefault("optimiser", "adamw")  # the only one before there was a choice
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        raise InputError(str(path), list(faults_of(error, RunConfig))) from None


def make_run_config(space: str, task: str, data: Mapping[str, Any], training: Recipe,
                    init: str | None = None) -> RunConfig:
    """A config from checked parts. Raises InputError for data options that are neither text nor numbers."""
    try:
        return RunConfig(space=space, task=task, data=dict(data), training=training, init=init)
    except ValidationError as error:
        raise InputError("", list(faults_of(error, RunConfig))) from None


def make_recipe(settings: Mapping[str, Any], base: Recipe | None = None) -> Recipe:
    """A recipe with these settings. Raises InputError with every wrong one and what is allowed."""
    try:
        return Recipe.model_validate({**(base.model_dump() if base else {}), **settings})
    except ValidationError as error:
        raise InputError(Option("training"), list(faults_of(error, Recipe))) from None


def recipe_of_one(base: Recipe, settings: Mapping[str, Any], share: int, lr_share: float = 1.0) -> Recipe:
    """A supernet's recipe for one architecture: 1/`share` of its steps, a share of its learning rate, no LayerDrop.

    Settings override this. The learning rate schedule is scaled to the number of steps.
    """
    start = base.model_copy(update={"strategy": "largest", "layerdrop": 0.0, "order_at": 0.0,
                                    "steps": -(-base.steps // share), "lr": base.lr * lr_share})
    recipe = make_recipe(settings, start)
    if "warmup" in settings:
        return recipe
    return recipe.model_copy(update={"warmup": round(base.warmup * recipe.steps / base.steps)})


def faults_of(error: ValidationError, model: type[BaseModel]) -> Iterator[Fault]:
    """Faults of a pydantic error, in plain words."""
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            fields = Recipe.model_fields if len(item["loc"]) > 1 else model.model_fields
            yield Fault(key, unknown_setting(str(item["loc"][-1]), fields))
        elif item["type"] == "missing":
            yield Fault(key, "is missing")
        else:
            yield Fault(key, not_allowed(item["input"], item["msg"]))


def unknown_setting(name: str, allowed: Collection[str]) -> str:
    """The message for an unknown setting."""
    return f"unknown setting; allowed: {', '.join(allowed)}{did_you_mean(name, allowed)}"


def _flat(config: RunConfig) -> dict[str, Any]:
    data = {f"data.{key}": value for key, value in config.data.items()}
    return {"space": config.space, "task": config.task, "init": config.init, **data, **config.training.model_dump()}


def _shown(value: Any) -> str:
    return "not given" if value is None else str(value)
