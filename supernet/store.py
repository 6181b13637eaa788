"""Shared tensors of several architectures, and the slices of them that one architecture reads."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from search_spaces.architecture import Architecture
from search_spaces.errors import InputError
from search_spaces.units import Step, Unit, plan
from supernet.build import build_on_meta
from supernet.layout import OWN, Core, TensorEntry, entries, initialise
from supernet.room import check_room

Inventory = Mapping[str, Sequence[Unit]]
"""Path of weights -> the units that may be there."""


class WeightStore(nn.Module):
    """Stores every named tensor of some units in its largest shape. An architecture reads slices of it.

    Args:
        name: of what is stored, for messages.
        inventory: the units to store.
        seed: of the initial weights; each tensor has its own generator, so the order does not matter.
        dropout: dropout rate while training.
        cores: whether full matrices share a core with factorised ones; in weights of earlier versions they do not.
    """

    def __init__(self, name: str, inventory: Inventory, *, seed: int = 0, dropout: float = 0.0,
                 cores: bool = True) -> None:
        super().__init__()
        self.name, self.dropout = name, dropout
        self._cores = _find_cores(inventory) if cores else frozenset()
        shapes, self.owners = self._largest_shapes(inventory)
        """The entry of a plain module behind every stored tensor, by its name."""
        device = torch.get_default_device()
        needed = sum(math.prod(shape) * self.owners[name].dtype.itemsize for name, shape in shapes.items())
        check_room(name, needed, "its weights", device, "use a smaller width, vocab_size or context")
        for stored, shape in shapes.items():
            entry = self.owners[stored]
            tensor = torch.empty(shape, dtype=entry.dtype)
            if not tensor.is_meta and entry.layout.core is not None:
                tensor.zero_()  # the core alone has the size that the matrix starts with
            elif not tensor.is_meta:
                initialise(tensor, entry, _generator(seed, stored, tensor.device), len(entry.pieces))
            if entry.is_buffer:
                self.register_buffer(stored, tensor)
            else:
                self.register_parameter(stored, nn.Parameter(tensor))
        self._reads: dict[tuple[str, Unit], tuple[_Read, ...]] = {}
        self._folded: dict[Any, tuple[tuple[int, ...], Tensor]] = {}

    @classmethod
    def of(cls, arch: Architecture) -> WeightStore:
        """A store for the tensors of one architecture, and so for everything smaller that reads prefixes of them.

        Its tensors have no values until they are filled.
        """
        inventory: dict[str, list[Unit]] = {}
        for step in plan(arch):
            inventory.setdefault(step.path, []).append(step.unit)
        with torch.device("meta"):
            store = WeightStore(f"model {arch.key[:12]}", inventory)
        return store.to_empty(device="cpu")

    def entries(self, path: str, unit: Unit) -> tuple[TensorEntry, ...]:
        """The tensors of a unit's plain module with their places in this store."""
        entries = unit_entries(unit)
        has_core = store_name(path, unit, "") in self._cores
        return entries if has_core else tuple(entry.without_core() for entry in entries)

    def _largest_shapes(self, inventory: Inventory) -> tuple[dict[str, tuple[int, ...]], dict[str, TensorEntry]]:
        """Name -> the largest extent of every axis over all units, and an entry that is stored there."""
        shapes: dict[str, tuple[int, ...]] = {}
        owners: dict[str, TensorEntry] = {}
        for path, units in inventory.items():
            for unit in units:
                for entry in self.entries(path, unit):
                    for piece in entry.pieces:
                        name = store_name(path, unit, piece.name)
                        known = shapes.get(name, piece.extent)
                        shapes[name] = tuple(map(max, known, piece.extent))
                        owners[name] = entry
        return shapes, owners

    def slices(self, step: Step) -> dict[str, Tensor]:
        """The weights of one unit: its plain module's tensor names -> slices of the store."""
        return {read.name: read.of(self) for read in self._reads_of(step)}

    def windows(self, arch: Architecture) -> Iterator[tuple[str, tuple[slice, ...]]]:
        """The parts of stored tensors that an architecture reads, by name; shared ones come more than once."""
        for step in plan(arch):
            for read in self._reads_of(step):
                yield from zip(read.stored, read.windows)
                yield from zip(read.factors, read.factor_windows)

    def _reads_of(self, step: Step) -> tuple[_Read, ...]:
        where = (step.path, step.unit)
        reads = self._reads.get(where)
        if reads is None:
            reads = self._reads[where] = tuple(self._read(step, entry) for entry in self.entries(*where))
        return reads

    def _read(self, step: Step, entry: TensorEntry) -> _Read:
        names = tuple(store_name(step.path, step.unit, piece.name) for piece in entry.pieces)
        stored = [self.get_stored(name).shape for name in names]
        for name, piece, shape in zip(names, entry.pieces, stored):
            if any(need > have for need, have in zip(piece.extent, shape)):
                raise InputError(self.name, f"{name} is stored as {tuple(shape)}, too small for {piece.shape}; "
                                            "the architecture is not in this space")
        windows = tuple(piece.window(tuple(shape)) for piece, shape in zip(entry.pieces, stored))
        whole = tuple(piece.shape == tuple(shape) for piece, shape in zip(entry.pieces, stored))
        core = entry.layout.core
        factors = () if core is None else tuple(store_name(step.path, step.unit, name)
                                                for name in (core.left, core.right))
        return _Read(entry.name, names, windows, whole, entry.layout.parts[0] if entry.layout.parts else 0,
                     entry.shape, core, factors)

    def folded(self, read: _Read, own: Tensor) -> Tensor:
        """A tensor with its core; computed once per state of the weights where no gradient is needed."""
        tensors = [self.get_stored(name) for name in (*read.stored, *read.factors)]
        if torch.is_grad_enabled():
            return read.add_core(own, *tensors[1:])
        state = tuple(value for tensor in tensors for value in (tensor.data_ptr(), tensor._version))
        known = self._folded.get((read.stored, read.shape))
        if known is None or known[0] != state:
            known = self._folded[read.stored, read.shape] = (state, read.add_core(own, *tensors[1:]))
        return known[1]

    def get_stored(self, name: str) -> Tensor:
        """A stored tensor by its name. Raises InputError if there is none."""
        tensor = self._parameters.get(name)
        stored = tensor if tensor is not None else self._buffers.get(name)
        if stored is None:
            raise InputError(self.name, f"stores no {name}; the architecture is not in this space")
        return stored


@dataclass(frozen=True)
class _Read:
    """How one plain tensor is read from the store."""

    name: str
    stored: tuple[str, ...]
    windows: tuple[tuple[slice, ...], ...]
    whole: tuple[bool, ...]
    axis: int
    shape: tuple[int, ...]
    core: Core | None = None
    factors: tuple[str, ...] = ()

    def of(self, net: WeightStore) -> Tensor:
        own = self._own(net)
        return own if self.core is None else net.folded(self, own)

    @property
    def factor_windows(self) -> tuple[tuple[slice, ...], ...]:
        """The parts of the factors that the core reads."""
        if self.core is None:
            return ()
        rows, columns = slice(self.shape[0]), slice(self.shape[1])
        return (rows, slice(None)), (slice(None), columns) if self.core.transposed else (columns, slice(None))

    def add_core(self, own: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """The tensor with its core."""
        assert self.core is not None
        left, right = (tensor[window] for tensor, window in zip((left, right), self.factor_windows))
        scale = (left.shape[1] / self.shape[1]) ** 0.5 if self.core.scaled else 1.0
        with torch.autocast(own.device.type, enabled=False):  # weights keep their precision
            return torch.addmm(own, left, right if self.core.transposed else right.T, alpha=scale)

    def _own(self, net: WeightStore) -> Tensor:
        parts = []
        for name, window, whole in zip(self.stored, self.windows, self.whole):
            tensor = net.get_stored(name)
            parts.append(tensor if whole else tensor[window])
        joined = parts[0] if len(parts) == 1 else torch.cat(parts, dim=self.axis)
        return joined if joined.shape == self.shape else joined.reshape(self.shape)


@lru_cache(maxsize=100_000)
def unit_entries(unit: Unit) -> tuple[TensorEntry, ...]:
    """The tensors of a unit's plain module with their places in the store."""
    return entries(build_on_meta(unit))


def has_cores(names: Iterable[str]) -> bool:
    """Whether stored weights, by their names, were trained with cores."""
    return any(name.endswith(f"@{OWN}") for name in names)


def store_name(path: str, unit: Unit, piece: str) -> str:
    """The name of a stored tensor: path, kind, and name in the module."""
    return f"{path}.{unit.block.kind}.{piece}".replace(".", "/")


def _find_cores(inventory: Inventory) -> frozenset[str]:
    """The units, by the beginning of their names in the store, whose full matrices have factors to share."""
    paths = set()
    for path, units in inventory.items():
        for kind in {unit.block.kind for unit in units}:
            same = [unit for unit in units if unit.block.kind == kind]
            if _has_core([entry for unit in same for entry in unit_entries(unit)]):
                paths.add(store_name(path, same[0], ""))
    return frozenset(paths)


def _has_core(known: Sequence[TensorEntry]) -> bool:
    """Whether the entries of a place have factors that are large enough for all their full matrices."""
    full = [(entry.shape[1], entry.layout.core) for entry in known if entry.layout.core is not None]
    return bool(full) and all(
        any(entry.name == core.right and entry.shape[1 if core.transposed else 0] >= columns for entry in known)
        for columns, core in full)


def _generator(seed: int, name: str, device: torch.device) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:7], "little"))
