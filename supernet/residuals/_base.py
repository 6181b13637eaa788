"""The contract of a residual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from supernet.call import Call

Streams = Any
"""The state that a residual carries between sub-layers: hidden states (batch, n, width), or a tuple of several."""
Sub = Callable[[Tensor], Tensor]
"""A block with its dropout: maps hidden states to the update."""


class Residual(nn.Module):
    """Base class of residuals: the block, its norm, and how its result is added to the stream.

    A subclass implements `add`. With several streams it overrides `enter` and `leave` too, which use no weights.

    Args:
        norm: a norm of its own, if any.
    """

    def __init__(self, block: nn.Module, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.norm = norm
        self.block = block
        self.drop = nn.Dropout(0.0)

    @staticmethod
    def enter(x: Tensor) -> Streams:
        """The streams before the first sub-layer."""
        return x

    def add(self, streams: Streams, sub: Sub) -> Streams:
        """The streams after the sub-layer."""
        raise NotImplementedError

    @staticmethod
    def leave(streams: Streams) -> Tensor:
        """Convert streams to hidden states."""
        return streams

    def forward(self, streams: Streams, call: Call) -> Streams:
        """Run the sub-layer among streams; `supernet.driver.run_unit` runs one on hidden states."""
        return self.add(streams, lambda x: self.drop(self.block(x, call)))
