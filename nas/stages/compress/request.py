"""The request of the stage `compress`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nas.core.config import OF_SUPERNETS, make_recipe, recipe_of_one, unknown_setting
from nas.stages.compress.technique import Technique
from search_spaces import Fault, InputError
from search_spaces.errors import Option
from supernet.train.recipe import Recipe

SHARE = 10
"""Training steps are those of the supernet divided by this."""
EVALUATION = ("device", "precision", "batch_size")
"""Settings that apply without a training."""


@dataclass(frozen=True)
class CompressRequest:
    """Make a subnet smaller.

    Args:
        subnet: a folder, or RUN/KEY, where KEY is a prefix of its key.
        technique: how.
        training: training settings that override those of the run.
        out: the new subnet's folder; by default the subnet's with the technique's suffix.
    """

    subnet: str
    technique: Technique
    training: Mapping[str, Any] = field(default_factory=dict)
    out: Path | None = None

    @property
    def trains(self) -> bool:
        """Whether the model is trained."""
        when = self.technique.trains
        steps = str(self.training.get("steps", "0" if when == "on request" else ""))
        return when == "always" or (when != "never" and steps != "0")

    def recipe(self, base: Recipe) -> Recipe:
        """Its training recipe, derived from the supernet's, `base`. Raises InputError with all faults."""
        given = dict(self.training)
        if not self.trains and self.technique.trains != "never":
            given.pop("steps", None)
        allowed = set(Recipe.model_fields) - set(OF_SUPERNETS) if self.trains else set(EVALUATION)
        faults = [Fault(key, self._useless(key)) for key in given if key not in allowed]
        if faults:
            raise InputError(Option("set"), faults)
        return recipe_of_one(base, given, SHARE, self.technique.lr_share) if self.trains else make_recipe(given, base)

    def _useless(self, key: str) -> str:
        if key not in Recipe.model_fields:
            return unknown_setting(key, (*self.technique.settable, *Recipe.model_fields))
        if key in OF_SUPERNETS:
            return "applies to supernets only; a subnet is one architecture"
        how = "" if self.technique.trains == "never" else "; set steps too"
        return f"has no effect without training{how}"
