"""Everything that determines a retraining, checked once and stored with it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nas.core.config import FREE, OF_SUPERNETS, faults_of, recipe_of_one, unknown_setting
from nas.stages.retrain.request import RetrainSettings
from search_spaces import Fault, InputError
from search_spaces.errors import Option
from search_spaces.files.reading import checked, read_json
from supernet.train.recipe import Recipe

SHARE = 4
"""Default retraining steps are those of the supernet divided by this."""
NEEDS = {"temperature": "logits", "label_share": "logits", "feature_weight": "features",
         "attention_weight": "attention", "fade": "teacher", "theseus_start": "theseus", "theseus_share": "theseus"}
"""Setting -> what it requires to have an effect."""


class RetrainConfig(BaseModel):
    """Everything that determines a retraining.

    Args:
        out: the folder of the result, from the run's.
        inputs: digests of the input weights and data.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    schema_version: Literal[1] = 1
    subnet: str
    init: Literal["inherit", "model", "scratch"] = "inherit"
    teacher: str = "supernet"
    distill: tuple[Literal["logits", "features", "attention"], ...] = ()
    temperature: float = Field(1.0, gt=0, description="softmax temperature of the logits of student and teacher")
    label_share: float = Field(0.2, ge=0, le=1, description="weight of the labels relative to the teacher's logits")
    feature_weight: float = Field(0.1, ge=0, description="weight of the relative squared difference of features")
    attention_weight: float = Field(0.1, ge=0, description="weight of the mean divergence of attention maps")
    fade: bool = Field(True, description="whether the weight of the teacher decays to 0")
    theseus: bool = False
    theseus_start: float = Field(0.3, ge=0, lt=1, description="share of the student's layers used in the first step")
    theseus_share: float = Field(0.5, gt=0, le=1, description="share of the steps until all of them are used")
    training: Recipe = Recipe()
    out: str
    inputs: dict[str, str] = Field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Identity of a retraining: equal if everything that determines its result is equal."""
        return hashlib.sha256(json.dumps(self._flat(), sort_keys=True).encode()).hexdigest()[:12]

    def differences(self, other: RetrainConfig) -> Iterator[str]:
        """`key is mine, requested: other's` of everything that changes the result."""
        mine, theirs = self._flat(), other._flat()
        for key in dict.fromkeys((*mine, *theirs)):
            if mine.get(key) != theirs.get(key):
                if key.startswith("input "):
                    yield f"the {key.removeprefix('input ')} changed since it was started"
                else:
                    yield f"{key} is {_shown(mine.get(key))}, requested: {_shown(theirs.get(key))}"

    def _flat(self) -> dict[str, Any]:
        data = self.model_dump(mode="json")
        inputs = {f"input {name}": digest for name, digest in data.pop("inputs").items()}
        training = {key: value for key, value in data.pop("training").items() if key not in FREE}
        return {**data, **training, **inputs}

    def facts(self) -> dict[str, Any]:
        """The settings for display."""
        wanted = _wanted(self.distill, self.theseus)
        facts = {"init": self.init, "teacher": self.teacher, "distill": list(self.distill), "theseus": self.theseus,
                 **{name: getattr(self, name) for name, needed in NEEDS.items() if needed in wanted}}
        recipe = self.training
        return {**facts, "lr": recipe.lr, "batch_size": recipe.batch_size * recipe.accumulate, "digest": self.digest}


def make_config(settings: RetrainSettings, base: Recipe, **known: Any) -> RetrainConfig:
    """The config of a retraining in a run with the recipe `base`. Raises InputError with what is wrong."""
    distill = settings.losses()
    faults = list(_wrong_settings(settings, distill, base))
    if faults:
        raise InputError(Option("training"), faults)
    own = {key: value for key, value in settings.training.items() if key in NEEDS}
    training = retrain_recipe(base, {key: value for key, value in settings.training.items() if key not in NEEDS})
    if training.layerdrop and (settings.theseus or {"features", "attention"} & {*distill}):
        message = f"drops layers that are compared with the teacher's; set it to 0, or use {Option('distill')} logits"
        raise InputError(Option("training"), [Fault("layerdrop", message)])
    try:
        return RetrainConfig.model_validate({**known, **own, "init": settings.init, "distill": distill,
                                             "theseus": settings.theseus, "training": training})
    except ValidationError as error:
        raise InputError("", list(faults_of(error, RetrainConfig))) from None


def _wrong_settings(settings: RetrainSettings, distill: Sequence[str], base: Recipe) -> Iterator[Fault]:
    """All faults of the training settings."""
    for key in settings.training:
        if key in NEEDS and NEEDS[key] not in _wanted(distill, settings.theseus):
            yield Fault(key, f"has no effect without {_option(NEEDS[key])}")
        if key in OF_SUPERNETS:
            yield Fault(key, "applies to supernets only; a subnet is one architecture")
        if key not in (*NEEDS, *Recipe.model_fields):
            yield Fault(key, unknown_setting(key, (*NEEDS, *Recipe.model_fields)))
    try:
        RetrainConfig.model_validate({"subnet": "", "out": "", **{key: value for key, value in settings.training.items()
                                                                  if key in NEEDS}})
    except ValidationError as error:
        yield from faults_of(error, RetrainConfig)
    try:
        retrain_recipe(base, {key: value for key, value in settings.training.items() if key in Recipe.model_fields})
    except InputError as error:
        yield from error.faults


def retrain_recipe(base: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe of a retraining in a run with the recipe `base`."""
    return recipe_of_one(base, settings, SHARE)


def read_config(path: Path) -> RetrainConfig:
    """The config of a started retraining. Raises InputError for a damaged file."""
    remedy = f"delete {path.parent} to start again"
    return checked(RetrainConfig, read_json(path, remedy), str(path), remedy)


def _wanted(distill: Sequence[str], theseus: bool) -> set[str]:
    """The features of a retraining, in terms of `NEEDS`."""
    return {*distill, *(["teacher"] if distill else []), *(["theseus"] if theseus else [])}


def _option(needed: str) -> str:
    return {"theseus": str(Option("theseus")), "teacher": "a teacher"}.get(needed, f"{Option('distill')} {needed}")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "nothing"
    return "not given" if value is None else str(value)
