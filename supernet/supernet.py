"""The shared store of a space's weights, and the forward pass of any architecture on slices of it."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from search_spaces.architecture import Architecture
from search_spaces.errors import InputError
from search_spaces.space.inventory import inventory
from search_spaces.space.search_space import SearchSpace
from search_spaces.units import Step, Unit
from supernet.build import build_on_meta, set_dropout
from supernet.generation import Writer
from supernet.layers.tables import Table
from supernet.layout import TensorEntry, entries, initialise
from supernet.parts import UnitParts
from supernet.room import check_room
from supernet.transformer import run


class Supernet(nn.Module):
    """Stores, for every named tensor of a space, its largest shape, and runs architectures on slices.

    `net(arch, tokens)` is stateless: nothing is set or remembered between calls but a cache of
    weightless modules. Any architecture whose tensors fit the store can be run.

    Args:
        space: the architectures it holds weights for.
        seed: of the initial weights; each tensor draws for itself, so they do not depend on order.
        dropout: rate of every dropout while training.
    """

    checkpointing: bool = False
    """Whether sub-layers are recomputed in the backward pass instead of kept."""

    def __init__(self, space: SearchSpace, *, seed: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.space, self.dropout = space, dropout
        shapes, owners = _largest_shapes(space)
        device = torch.get_default_device()
        needed = sum(math.prod(shape) * owners[name].dtype.itemsize for name, shape in shapes.items())
        check_room(f"supernet of {space.name}", needed, "its weights", device,
                   "use a smaller width, vocab_size or context")
        for name, shape in shapes.items():
            entry = owners[name]
            tensor = torch.empty(shape, dtype=entry.dtype)
            if not tensor.is_meta:
                initialise(tensor, entry, _generator(seed, name, tensor.device), len(entry.pieces))
            if entry.is_buffer:
                self.register_buffer(name, tensor)
            else:
                self.register_parameter(name, nn.Parameter(tensor))
        self._reads: dict[tuple[str, Unit], tuple[_Read, ...]] = {}

    def forward(self, arch: Architecture, tokens: Tensor, target: Tensor | None = None, *, mask: Tensor | None = None,
                target_mask: Tensor | None = None, types: Tensor | None = None,
                outputs: Sequence[str] | None = None) -> Any:
        """What `Transformer(arch).forward` gives, on this store's weights."""
        return run(arch, _Slices(self), self.checkpointing and torch.is_grad_enabled(), tokens, target, mask,
                   target_mask, types, outputs)

    def writer(self, arch: Architecture) -> Writer:
        """What reads and writes token by token as the plain model of `arch` does, on this store's weights."""
        return _Subnet(self, arch)

    def slices(self, step: Step) -> dict[str, Tensor]:
        """The weights of one unit: its plain module's tensor names -> slices of the store."""
        where = (step.path, step.unit)
        reads = self._reads.get(where)
        if reads is None:
            reads = self._reads[where] = tuple(self._read(step, entry) for entry in unit_entries(step.unit))
        return {read.name: read.of(self) for read in reads}

    def _read(self, step: Step, entry: TensorEntry) -> _Read:
        names = tuple(store_name(step.path, step.unit, piece.name) for piece in entry.pieces)
        stored = [self.get_stored(name).shape for name in names]
        for name, piece, shape in zip(names, entry.pieces, stored):
            if any(need > have for need, have in zip(piece.extent, shape)):
                raise InputError(f"supernet of {self.space.name}",
                                 f"{name} is stored as {tuple(shape)}, too small for {piece.shape}; "
                                 "the architecture is not of this space")
        windows = tuple(piece.window(tuple(shape)) for piece, shape in zip(entry.pieces, stored))
        whole = tuple(piece.shape == tuple(shape) for piece, shape in zip(entry.pieces, stored))
        return _Read(entry.name, names, windows, whole, entry.layout.parts[0] if entry.layout.parts else 0, entry.shape)

    def get_stored(self, name: str) -> Tensor:
        """A stored tensor by its name. Raises InputError where there is none."""
        tensor = self._parameters.get(name)
        found = tensor if tensor is not None else self._buffers.get(name)
        if found is None:
            raise InputError(f"supernet of {self.space.name}",
                             f"stores no {name}; the architecture is not of this space")
        return found


@dataclass(frozen=True)
class _Read:
    """How one plain tensor is read from the store."""

    name: str
    stored: tuple[str, ...]
    windows: tuple[tuple[slice, ...], ...]
    whole: tuple[bool, ...]
    axis: int
    shape: tuple[int, ...]

    def of(self, net: Supernet) -> Tensor:
        found = []
        for name, window, whole in zip(self.stored, self.windows, self.whole):
            tensor = net.get_stored(name)
            found.append(tensor if whole else tensor[window])
        joined = found[0] if len(found) == 1 else torch.cat(found, dim=self.axis)
        return joined if joined.shape == self.shape else joined.reshape(self.shape)


class _Slices:
    """The units of an architecture on slices of a store, for one forward pass."""

    def __init__(self, net: Supernet) -> None:
        like = next(net.parameters())
        self.net = net
        self.mode = (net.training, net.dropout, like.device, like.dtype)
        self.bound: dict[str, dict[str, Tensor]] = {}

    def tensors(self, step: Step) -> Mapping[str, Tensor]:
        found = self.bound.get(step.path)
        if found is None:
            found = self.bound[step.path] = self.net.slices(step)
        return found

    def residual(self, step: Step) -> nn.Module:
        return _skeleton(step.unit, *self.mode).module

    def call(self, step: Step, *inputs: Any) -> Any:
        return _skeleton(step.unit, *self.mode).run(self.tensors(step), inputs)


class _Subnet(Writer):
    """An architecture on slices of a store."""

    def __init__(self, net: Supernet, arch: Architecture) -> None:
        self.net, self.arch = net, arch

    def parts(self) -> UnitParts:
        return _Slices(self.net)


class _Skeleton:
    """A unit's plain module without weights. A call puts weights in and takes them out again.

    `torch.func.functional_call` does the same for any module; for one built here the places are known
    beforehand, which takes less time. A skeleton belongs to one thread.
    """

    def __init__(self, unit: Unit, training: bool, dropout: float, device: torch.device, dtype: torch.dtype) -> None:
        self.module = set_dropout(build_on_meta(unit), dropout).train(training)
        self.places: list[tuple[dict[str, Any], str, str]] = []
        for prefix, inner in self.module.named_modules():
            if isinstance(inner, Table):
                inner.values = inner.compute().to(device, dtype)
            dot = prefix + "." if prefix else ""
            for held in (inner._parameters, inner._buffers):
                names = [name for name, tensor in held.items() if tensor is not None and not isinstance(inner, Table)]
                self.places += [(held, name, dot + name) for name in names]

    def run(self, weights: Mapping[str, Tensor], inputs: tuple[Any, ...]) -> Any:
        try:
            for held, name, full in self.places:
                held[name] = weights[full]
            return self.module(*inputs)
        finally:
            for held, name, _ in self.places:
                held[name] = None


_local = threading.local()


MOST_SKELETONS = 4096
"""How many a thread keeps before it starts afresh."""


def _skeleton(unit: Unit, training: bool, dropout: float, device: torch.device, dtype: torch.dtype) -> _Skeleton:
    """The cached skeleton of a unit for this thread."""
    cache: dict[Any, _Skeleton] = _local.__dict__.setdefault("cache", {})
    key = (unit, training, dropout, device, dtype)
    found = cache.get(key)
    if found is None:
        if len(cache) >= MOST_SKELETONS:
            cache.clear()
        found = cache[key] = _Skeleton(*key)
    return found


@lru_cache(maxsize=100_000)
def unit_entries(unit: Unit) -> tuple[TensorEntry, ...]:
    """The tensors of a unit's plain module with their places in the store."""
    return entries(build_on_meta(unit))


def store_name(path: str, unit: Unit, piece: str) -> str:
    """The name of a stored tensor: where it stands, the kind it belongs to, its name there."""
    return f"{path}.{unit.block.kind}.{piece}".replace(".", "/")


def _largest_shapes(space: SearchSpace) -> tuple[dict[str, tuple[int, ...]], dict[str, TensorEntry]]:
    """Name -> the largest extent of every axis over the space, and an entry that is stored there."""
    shapes: dict[str, tuple[int, ...]] = {}
    owners: dict[str, TensorEntry] = {}
    for path, units in inventory(space).items():
        for unit in units:
            for entry in unit_entries(unit):
                for piece in entry.pieces:
                    name = store_name(path, unit, piece.name)
                    known = shapes.get(name, piece.extent)
                    shapes[name] = tuple(map(max, known, piece.extent))
                    owners[name] = entry
    return shapes, owners


def _generator(seed: int, name: str, device: torch.device) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:7], "little"))
