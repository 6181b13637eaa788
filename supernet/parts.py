"""Access to the units of an architecture for a pass over a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor, nn


class PlannedStep(Protocol):
    """The fields of a plan step that are needed to run it; see `search_spaces.units.Step`."""

    @property
    def path(self) -> str:
        """The path of the weights."""

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
    """Source of units for a pass: a plain model's modules or the supernet's slices."""

    def call(self, step: Any, *inputs: Any) -> Any:
        """Run the unit of a step."""

    def tensors(self, step: Any) -> Mapping[str, Tensor]:
        """The weights of the unit of a step."""

    def residual(self, step: Any) -> Any:
        """The residual of a sub-layer step; see `supernet/residuals`."""


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
