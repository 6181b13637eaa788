"""Fast sums of the prices of many architectures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import chain
from operator import add, attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.profile import Calibration, Stored, scale
from hardware_profiles.steps import steps_with_reuse
from hardware_profiles.table import PriceTable
from search_spaces import registry as kinds
from search_spaces.architecture import Architecture, Layer
from search_spaces.block import BlockConfig
from search_spaces.errors import InputError
from search_spaces.units import Step, Unit

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
_OUTSIDE_LAYERS = attrgetter(*(field.name for field in fields(Architecture)
                               if field.name not in ("encoder", "decoder")))
"""Fields of an architecture that units outside the layers depend on."""
_AROUND_LAYERS = attrgetter(*(field.name for field in fields(Architecture)
                              if field.name not in ("encoder", "decoder", "embedding", "head")))
"""Fields of an architecture, besides the layer, that the units of a layer depend on."""


class PriceIndex:
    """The prices of one phase in arrays, and the indices of the prices of an architecture.

    Prices are stored once per calibration: those of the profiled spaces, then the one of all spaces. In each row, the
    scaled prices of all units come first, then those of units whose weights an earlier layer has used.

    Architectures of a space share their block objects, so indices are cached by the identity of blocks: a look-up
    compares a few addresses.

    Args:
        missing: makes the error of a unit that has no price.
    """

    def __init__(self, table: PriceTable, stored: Stored, phase: str, missing: Callable[[Unit, str], InputError],
                 ) -> None:
        self.phase, self.missing = phase, missing
        spaces = [name for name, known in stored.by_space.items() if phase in known]
        self.calibrations = [*(stored.by_space[name][phase] for name in spaces),
                             stored.calibration.get(phase, Calibration())]
        rows = [row for (known, _), row in table.items() if known == phase]
        self.index_of = {row.unit: i for i, row in enumerate(rows)}
        self.overheads = np.array([calibration.overhead_ms for calibration in self.calibrations])
        self.prices = np.array([[scale(calibration, row.unit, reused) * row.ms for reused in (False, True)
                                 for row in rows] for calibration in self.calibrations])
        self.unmeasured = np.array(2 * [row.source != "measured" for row in rows], dtype=bool)
        self.in_space = np.array([2 * [name in row.spaces for row in rows] for name in spaces], dtype=bool)
        self._outside: dict[Any, list[int]] = {}
        self._stacks: dict[Any, tuple[dict[int, tuple[BlockConfig, int]], dict[Any, list[int]]]] = {}
        """By stack and fields around it: indices by the identity of blocks, and what to add for reuse, by slots."""

    def latencies_ms(self, archs: Sequence[Architecture]) -> Floats:
        """Milliseconds of each architecture."""
        return self._sums(archs)[0]

    def unmeasured_shares(self, archs: Sequence[Architecture]) -> Floats:
        """The share of each sum that comes from prices that were not measured."""
        total, unmeasured = self._sums(archs)
        return np.divide(unmeasured, total, out=np.zeros_like(total), where=total > 0)

    def calibration(self, arch: Architecture) -> Calibration:
        """That of the first profiled space that contains all units of an architecture, else that of all spaces."""
        return self.calibrations[int(self._chosen(*self._concatenated([arch]))[0])]

    def _sums(self, archs: Sequence[Architecture]) -> tuple[Floats, Floats]:
        """Milliseconds of each architecture, and those of its units that were not measured."""
        if not archs:
            return np.zeros(0), np.zeros(0)
        indices, offsets = self._concatenated(archs)
        chosen = self._chosen(indices, offsets)
        prices = self.prices[np.repeat(chosen, np.diff(offsets)), indices]
        unmeasured = np.add.reduceat(np.where(self.unmeasured[indices], prices, 0.0), offsets[:-1])
        return self.overheads[chosen] + np.add.reduceat(prices, offsets[:-1]), unmeasured

    def _concatenated(self, archs: Sequence[Architecture]) -> tuple[Indices, Indices]:
        """The price indices of all architectures in one array, and the offsets of each."""
        rows = [self.indices(arch) for arch in archs]
        offsets = np.cumsum([0, *map(len, rows)])
        return np.fromiter(chain.from_iterable(rows), dtype=np.intp, count=int(offsets[-1])), offsets

    def _chosen(self, indices: Indices, offsets: Indices) -> Indices:
        """The number of the calibration of each architecture."""
        if not len(self.in_space):
            return np.zeros(len(offsets) - 1, dtype=np.intp)
        complete = np.logical_and.reduceat(self.in_space[:, indices], offsets[:-1], axis=1)
        return np.where(complete.any(axis=0), complete.argmax(axis=0), len(self.in_space))

    def indices(self, arch: Architecture) -> list[int]:
        """The indices of the prices of an architecture's steps, those outside the layers first."""
        try:
            return self._remembered(arch)
        except KeyError:
            steps = sorted(steps_with_reuse(arch, self.phase), key=lambda pair: pair[0].layer >= 0)
            self._remember(arch, steps)
            return [self._index(step.unit, reused) for step, reused in steps]

    def _remembered(self, arch: Architecture) -> list[int]:
        """The same without a plan. Raises KeyError if something is not cached."""
        indices, around = self._outside[_OUTSIDE_LAYERS(arch)].copy(), _AROUND_LAYERS(arch)
        for stack in ("encoder", "decoder") if self.phase == "prefill" else ("decoder",):
            if layers := getattr(arch, stack):
                blocks, offsets = self._stacks[around, stack]
                first_uses = [blocks[id(block)][1] for layer in layers
                              for block in (layer.mixer, layer.cross, layer.ffn, layer.between) if block is not None]
                indices += map(add, first_uses, offsets[_slots(layers)])
        return indices

    def _remember(self, arch: Architecture, steps: Sequence[tuple[Step, bool]]) -> None:
        """Cache the indices of blocks that have one unit, whatever the other layers are.

        So never those of an architecture with a block between layers, which changes the units after it, or of a block
        that computes a result in one layer and reuses it in another (`Kind.shares`).
        """
        if any(layer.between is not None for layers in arch.stacks.values() for layer in layers):
            return
        self._outside[_OUTSIDE_LAYERS(arch)] = [self._index(step.unit) for step, _ in steps if step.layer < 0]
        for stack, layers in arch.stacks.items():
            blocks, offsets = self._stacks.setdefault((_AROUND_LAYERS(arch), stack), ({}, {}))
            inside = [(step, reused) for step, reused in steps if step.stack == stack and step.layer >= 0]
            offsets[_slots(layers)] = [reused * len(self.index_of) for _, reused in inside]
            for step, _ in inside:
                if kinds.get(step.unit.block.kind).shares is None:
                    block = getattr(layers[step.layer], step.role)
                    blocks[id(block)] = block, self._index(step.unit)  # keeps the block, so its address stays unique

    def _index(self, unit: Unit, reused: bool = False) -> int:
        index = self.index_of.get(unit)
        if index is None:
            raise self.missing(unit, self.phase)
        return index + reused * len(self.index_of)


def _slots(layers: Sequence[Layer]) -> tuple[tuple[int, int], ...]:
    """What decides which steps of a stack reuse weights."""
    return tuple([(layer.mixer_slot, layer.ffn_slot) for layer in layers])
