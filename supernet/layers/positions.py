"""Positions that are added to embeddings: learned, or sinusoids, which are not stored."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from supernet.layers.tables import TABLE_STD, Table, rows, sinusoids, table
from supernet.layout import Layout


class AddedPositions(nn.Module):
    """x -> x plus the vectors of its positions; rotary positions and none add nothing.

    Args:
        positions: as an architecture names them.
    """

    def __init__(self, positions: str, context: int, width: int) -> None:
        super().__init__()
        self.place = table(context, width) if positions == "learned" else None
        self.waves = Table(partial(sinusoids, context, width), (context, width)) if positions == "sinusoidal" else None

    def forward(self, x: Tensor, position: int | Tensor) -> Tensor:
        """(batch, n, width) at a position, as `supernet.layers.tables.rows` takes it."""
        if self.place is not None:
            x = x + rows(self.place.weight, position, x.shape[1])
        return x if self.waves is None else x + rows(self.waves.values, position, x.shape[1])

    def layouts(self) -> dict[str, Layout]:
        return {"place.weight": Layout(init=TABLE_STD)}
