"""Where a forward pass finds the units of an architecture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor, nn

from search_spaces.units import Step


class Parts(Protocol):
    """Where a forward pass finds its units: a plain model's modules or the supernet's slices."""

    def call(self, step: Step, *inputs: Any) -> Any:
        """Run the unit of a step."""

    def tensors(self, step: Step) -> Mapping[str, Tensor]:
        """The weights of the unit of a step."""


class Modules:
    """The units of a plain model."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def call(self, step: Step, *inputs: Any) -> Any:
        """Run the module at the step's path."""
        return self.model.get_submodule(step.path)(*inputs)

    def tensors(self, step: Step) -> Mapping[str, Tensor]:
        """The parameters of the module at the step's path."""
        return dict(self.model.get_submodule(step.path).named_parameters())
