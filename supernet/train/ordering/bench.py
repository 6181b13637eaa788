"""A numerical test of permutations: units with random weights, run before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from search_spaces.errors import InputError
from search_spaces.units import Unit
from supernet.build import build_on_meta, build_unit
from supernet.call import Call
from supernet.driver import run_unit
from supernet.filling import join
from supernet.layout import TensorEntry, entries

LENGTH = 5
_SMALL = {"vocab_size": 7, "context": LENGTH + 1}
"""Small values of facts that cost memory and do not affect which channels belong together."""
TOLERANCE = 1e-8
"""Maximum relative difference of float64 outputs: rounding is far below, a wrong permutation far above."""


class UnitAxis(NamedTuple):
    """An axis of one stored piece of a unit.

    Args:
        unit: the index of the unit on its bench.
        piece: the name of the piece.
        block: consecutive entries that are one item: the axis has `block` times as many entries as there are items.
        span: how many axes, from this one on, are taken as one.
    """

    unit: int
    piece: str
    axis: int
    block: int = 1
    span: int = 1


class UnitBench:
    """Units that run one after the other on random weights in float64; a tying head reads the embedding's."""

    def __init__(self, units: Sequence[Unit]) -> None:
        small = [_small(unit) for unit in units]
        self.units = small if all(map(_stores_the_same, units, small)) else list(units)  # such as tables with cutoffs
        noise = torch.Generator().manual_seed(0)
        self.modules: list[nn.Module] = []
        self.entries: list[tuple[TensorEntry, ...]] = []
        self.weights: dict[tuple[int, str], Tensor] = {}
        for i, unit in enumerate(self.units):
            with torch.device("cpu"):
                module = build_unit(unit).double().eval()
            self.modules.append(module)
            self.entries.append(entries(module))
            for entry in self.entries[-1]:
                scale = max(entry.shape[-1], 1) ** -0.5 if len(entry.shape) > 1 else 1.0
                self.weights |= {(i, piece.name): scale * torch.randn(piece.shape, generator=noise, dtype=torch.double)
                                 for piece in entry.pieces}
        width = max((int(dict(unit.facts).get("width", 1)) for unit in self.units), default=1)
        self.x, self.memory = (torch.randn(2, n, width, generator=noise, dtype=torch.double) for n in (LENGTH, 3))
        words = min((int(dict(unit.facts).get("vocab_size", 1)) for unit in self.units), default=1)
        self.ids = torch.randint(0, words, (2, LENGTH), generator=noise)
        self.before = self.outputs(self.weights)

    def outputs(self, weights: Mapping[tuple[int, str], Tensor], channels: Tensor | None = None) -> list[Tensor]:
        """The outputs of each unit; with `channels`, hidden states are read and returned in that order."""
        outputs, tied = [], {}
        with torch.no_grad():
            for i, (unit, module) in enumerate(zip(self.units, self.modules)):
                tensors = {entry.name: join(entry, [weights[i, piece.name] for piece in entry.pieces])
                           for entry in self.entries[i]}
                module.load_state_dict(tensors, strict=False)
                if unit.role == "embedding":
                    tied = tensors
                sides = (False, True) if unit.role == "embedding" else (False,)
                outputs += [output for target in sides for output in self._run(unit, module, target, tied, channels)]
        return outputs

    def _run(self, unit: Unit, module: nn.Module, target: bool, tied: Mapping[str, Tensor],
             channels: Tensor | None) -> list[Tensor]:
        x, memory = (states if channels is None else states[..., channels] for states in (self.x, self.memory))
        shared = self._shared(module)
        call = Call(memory=memory, target=target, shared=shared)
        y = run_unit(unit.role, module, self.ids if unit.role == "embedding" else x, call, tied)[0]
        seen = y if channels is None or unit.role == "head" else y[..., torch.argsort(channels)]
        return [seen, *(tensor for name in shared for tensor in shared[name])]

    def _shared(self, module: nn.Module) -> dict[str, tuple[Tensor, ...]]:
        """Random tensors in place of what earlier layers share."""
        shapes = getattr(getattr(module, "block", None), "shared_shapes", None)
        noise = torch.Generator().manual_seed(1)
        return {} if shapes is None else {
            name: tuple(torch.randn(shape, generator=noise, dtype=torch.double) for shape in sizes)
            for name, sizes in shapes(2, LENGTH).items()}

    def keeps(self, axes: Sequence[UnitAxis], order: Tensor, channels: Tensor | None = None) -> bool:
        """Whether the outputs stay the same if these axes are permuted, and the hidden states by `channels`."""
        weights = dict(self.weights)
        for unit, piece, axis, block, span in axes:
            weights[unit, piece] = permuted(weights[unit, piece], axis, span, expand(order, block))
        after = self.outputs(weights, channels)
        return all(_equal(one, other) for one, other in zip(self.before, after))


def permuted(tensor: Tensor, axis: int, span: int, entries: Tensor) -> Tensor:
    """A tensor with the entries of an axis, or of `span` axes taken as one, in another order."""
    flat = tensor.flatten(axis, axis + span - 1)
    return flat.index_select(axis, entries.to(flat.device)).view(tensor.shape)


def expand(order: Tensor, block: int) -> Tensor:
    """An order of items as one of entries, `block` to an item."""
    return (order[:, None] * block + torch.arange(block, device=order.device)).flatten()


def _small(unit: Unit) -> Unit:
    return replace(unit, facts=tuple((name, min(_SMALL.get(name, value), value) if name in _SMALL else value)
                                     for name, value in unit.facts))


def _stores_the_same(unit: Unit, small: Unit) -> bool:
    """Whether a unit with small facts can be built, with the same tensors."""
    try:
        pieces = [piece for entry in entries(build_on_meta(small)) for piece in entry.pieces]
    except (InputError, ValueError):
        return False
    names = [piece.name for entry in entries(build_on_meta(unit)) for piece in entry.pieces]
    return names == [piece.name for piece in pieces] and all(min(piece.shape, default=1) > 0 for piece in pieces)


def _equal(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() <= TOLERANCE * one.abs().max().clamp_min(1e-3))
