"""Where a pass over a plan finds the units of an architecture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor, nn


class PlannedStep(Protocol):
    """A step of a plan, as far as running it needs to know; see `search_spaces.units.Step`."""

    @property
    def path(self) -> str:
        """Where the weights live."""

    @property
    def role(self) -> str:
        """The role of its unit."""

    @property
    def stack(self) -> str:
        """The stack it runs in."""

    @property
    def ties(self) -> bool:
        """Whether it is a head that reads the embedding's tensors."""


class UnitParts(Protocol):
    """Where a pass finds its units: a plain model's modules or the supernet's slices."""

    def call(self, step: Any, *inputs: Any) -> Any:
        """Run the unit of a step."""

    def tensors(self, step: Any) -> Mapping[str, Tensor]:
        """The weights of the unit of a step."""

    def residual(self, step: Any) -> Any:
        """What enters and leaves the streams of a step that is a sub-layer; see `supernet/residuals`."""


class Modules:
    """The units of a plain model."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def call(self, step: PlannedStep, *inputs: Any) -> Any:
        """Run the module at the step's path."""
        return self.model.get_submodule(step.path)(*inputs)

    def residual(self, step: PlannedStep) -> nn.Module:
        """The module at the step's path."""
        return self.model.get_submodule(step.path)

    def tensors(self, step: PlannedStep) -> Mapping[str, Tensor]:
        """The parameters of the module at the step's path."""
        return dict(self.model.get_submodule(step.path).named_parameters())
