"""Workloads of decoding: units and whole models on one more token, with a cache."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from hardware_profiles.profile import Conditions
from search_spaces.units import Unit
from supernet.cache import Cache, OneUnit, state_shapes
from supernet.call import Call, State
from supernet.driver import run_unit
from supernet.stepping import MOST_ROWS, grown_axes
from supernet.transformer import Transformer


class DecodingUnits(nn.Module):
    """Sub-layers one after the other on one more token, as `generate` runs them; each has a state of its own."""

    def __init__(self, units: list[nn.Module], position: int, per_unit: int) -> None:
        super().__init__()
        self.units, self.per_unit = nn.ModuleList(OneUnit(unit, position) for unit in units), per_unit

    def forward(self, x: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        """The hidden states of the token, and the new states."""
        after: list[Tensor] = []
        for i, unit in enumerate(self.units):
            x, *state = unit(x, *states[i * self.per_unit : (i + 1) * self.per_unit])
            after += state
        return (x, *after)


class ExportedUnits(nn.Module):
    """Sub-layers one after the other on one more token, as exported decoders run them (see `DecoderStep`).

    The mask and the positions are inputs, so each sub-layer applies them, and states are of any size or lose their
    oldest token.

    Args:
        unit: a mixer or a cross-attention.
        units: its modules.
        window: how many tokens a state holds; None for a dynamic size.
    """

    def __init__(self, unit: Unit, units: list[nn.Module], window: int | None) -> None:
        super().__init__()
        self.unit, self.units, self.window = unit, nn.ModuleList(units), window
        self.axes, self.of_source = grown_axes(unit), unit.role == "cross"

    def forward(self, x: Tensor, mask: Tensor, position: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        """The hidden states of the token, and the new states of the past."""
        rest, after, real = iter(states), list[Tensor](), mask != 0
        own, source = (None, real) if self.of_source else (real, None)
        for unit in self.units:
            state = State(tuple(islice(rest, len(self.axes))))
            x, _ = run_unit(self.unit.role, unit, x, Call(own, memory_mask=source, state=state, position=position), {})
            if not self.of_source:
                after += [self._kept(place, tensor) for place, tensor in enumerate(state.tensors)]
        return (x, *after)

    def _kept(self, place: int, tensor: Tensor) -> Tensor:
        axis = self.axes[place]
        if self.window is None or axis is None:
            return tensor
        most = self._most(place, axis, self.window)
        return tensor.narrow(axis, tensor.shape[axis] - most, most)

    def _most(self, place: int, axis: int, past: int) -> int:
        """Size of a state along its axis after `past` tokens: less than that, if it keeps the nearest tokens only."""
        return state_shapes(self.unit, 1, past)[place][axis]

    def example(self, batch: int, n: int, past: int) -> tuple[Tensor, ...]:
        """Inputs of these sizes; `past` is the length of the source for cross-attention. Nothing is masked."""
        seen = past if self.of_source else past + n
        states = (torch.randn(shape) for _ in self.units for shape in state_shapes(self.unit, batch, past))
        return (torch.randn(batch, n, int(dict(self.unit.facts)["width"])), torch.ones(batch, seen, dtype=torch.long),
                torch.zeros(batch, n, dtype=torch.long), *states)

    def bounds(self) -> dict[int, int]:
        """Exclusive bounds of integer inputs by their place: the mask and the positions."""
        return {1: 2, 2: 2}

    def traced(self) -> tuple[Tensor, ...]:
        """Inputs to trace it with if sizes are dynamic: all of them differ, and none is 1."""
        return self.example(2, 3, 4)

    def open_axes(self) -> dict[str, Any]:
        """The dynamic sizes, as torch's exporters take them."""
        batch, n, past = (Dim(name, min=1, max=MOST_ROWS) for name in ("batch", "length", "past"))
        ends = [None if axis is None else self._most(place, axis, MOST_ROWS) for place, axis in enumerate(self.axes)]
        sizes = {most: past if most == MOST_ROWS else Dim(f"past_{most}", min=1, max=most) for most in ends if most}
        states = tuple({0: batch} if axis is None or most is None else {0: batch, axis: sizes[most]}
                       for axis, most in zip(self.axes, ends))
        return {"x": {0: batch, 1: n}, "mask": {0: batch, 1: past if self.of_source else Dim.AUTO},
                "position": {0: batch, 1: n}, **({"states": states * len(self.units)} if states else {})}


class DecodingModel(nn.Module):
    """A plain model on one more token, as `generate` runs it."""

    def __init__(self, model: Transformer, past: int, counts: Sequence[int]) -> None:
        super().__init__()
        self.model, self.past, self.counts = model, past, counts

    def forward(self, token: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Logits and the new states."""
        rest = iter(tensors)
        states = tuple(tuple(islice(rest, count)) for count in self.counts)
        logits, cache = self.model.decode(token, Cache(token.shape[0], self.past, states))
        return (logits, *(tensor for state in cache.states for tensor in state))


def unit_state(unit: Unit, conditions: Conditions) -> tuple[Tensor, ...]:
    """The state of a sub-layer: of the past, or of the source for cross-attention."""
    return tuple(torch.randn(shape) for shape in state_shapes(unit, conditions.batch, remembered(unit, conditions)))


def remembered(unit: Unit, conditions: Conditions) -> int:
    """Tokens that a sub-layer remembers: the past, or the source for cross-attention."""
    return conditions.length if unit.role == "cross" else conditions.past
