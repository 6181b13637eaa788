"""A training loss of a plain model that replaces the loss of its labels, such as that of distillation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor, nn

from search_spaces.architecture import Architecture
from supernet.batch import Batch

if TYPE_CHECKING:
    from supernet.train.step import Trainer


class TrainingLoss(nn.Module):
    """A weighted sum of losses; its own weights, such as projections, are trained and saved with the model's.

    Args:
        parts: names of its losses.
    """

    def __init__(self, parts: Sequence[str]) -> None:
        super().__init__()
        self.parts = tuple(parts)

    def weights(self, done: float) -> Sequence[float]:
        """The weight of each part when that share of the steps is done."""
        raise NotImplementedError

    def losses(self, trainer: Trainer, arch: Architecture, batch: Batch) -> tuple[Tensor, ...]:
        """The loss of each part on a batch, summed over its labels or taken as often as it has labels."""
        raise NotImplementedError
