"""The shared store of a space's weights, and the forward pass of any architecture on slices of it."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from search_spaces.architecture import Architecture
from search_spaces.errors import InputError
from search_spaces.space.inventory import inventory
from search_spaces.space.search_space import SearchSpace
from search_spaces.units import Step, Unit, plan
from supernet.build import build_on_meta, set_dropout
from supernet.generation import Writer
from supernet.layers.tables import Table
from supernet.layout import OWN, Core, TensorEntry, entries, initialise
from supernet.parts import UnitParts
from supernet.room import check_room
from supernet.transformer import run


class Supernet(nn.Module):
    """Stores, for every named tensor of a space, its largest shape, and runs architectures on slices.

    `net(arch, tokens)` is stateless: no state is kept between calls except a cache of modules without weights. Any
    architecture whose tensors fit the store can be run.

    Args:
        space: the architectures it holds weights for.
        seed: of the initial weights; each tensor has its own generator, so the order does not matter.
        dropout: dropout rate while training.
        cores: whether full matrices share a core with factorised ones; in weights of earlier versions they do not.
    """

    checkpointing: bool = False
    """Whether to recompute sub-layers in the backward pass (activation checkpointing)."""

    def __init__(self, space: SearchSpace, *, seed: int = 0, dropout: float = 0.0, cores: bool = True) -> None:
        super().__init__()
        self.space, self.dropout = space, dropout
        self._cores = _find_cores(space) if cores else frozenset()
        shapes, self.owners = self._largest_shapes()
        """The entry of a plain module behind every stored tensor, by its name."""
        device = torch.get_default_device()
        needed = sum(math.prod(shape) * self.owners[name].dtype.itemsize for name, shape in shapes.items())
        check_room(f"supernet of {space.name}", needed, "its weights", device,
                   "use a smaller width, vocab_size or context")
        for name, shape in shapes.items():
            entry = self.owners[name]
            tensor = torch.empty(shape, dtype=entry.dtype)
            if not tensor.is_meta and entry.layout.core is not None:
                tensor.zero_()  # the core alone has the size that the matrix starts with
            elif not tensor.is_meta:
                initialise(tensor, entry, _generator(seed, name, tensor.device), len(entry.pieces))
            if entry.is_buffer:
                self.register_buffer(name, tensor)
            else:
                self.register_parameter(name, nn.Parameter(tensor))
        self._reads: dict[tuple[str, Unit], tuple[_Read, ...]] = {}
        self._folded: dict[Any, tuple[tuple[int, ...], Tensor]] = {}

    def entries(self, path: str, unit: Unit) -> tuple[TensorEntry, ...]:
        """The tensors of a unit's plain module with their places in this store."""
        found = unit_entries(unit)
        return found if store_name(path, unit, "") in self._cores else tuple(each.without_core() for each in found)

    def _largest_shapes(self) -> tuple[dict[str, tuple[int, ...]], dict[str, TensorEntry]]:
        """Name -> the largest extent of every axis over the space, and an entry that is stored there."""
        shapes: dict[str, tuple[int, ...]] = {}
        owners: dict[str, TensorEntry] = {}
        for path, units in inventory(self.space).items():
            for unit in units:
                for entry in self.entries(path, unit):
                    for piece in entry.pieces:
                        name = store_name(path, unit, piece.name)
                        known = shapes.get(name, piece.extent)
                        shapes[name] = tuple(map(max, known, piece.extent))
                        owners[name] = entry
        return shapes, owners

    def forward(self, arch: Architecture, tokens: Tensor, target: Tensor | None = None, *, mask: Tensor | None = None,
                target_mask: Tensor | None = None, types: Tensor | None = None,
                outputs: Sequence[str] | None = None) -> Any:
        """As `Transformer(arch).forward`, with this store's weights."""
        if torch.is_grad_enabled():
            self._folded.clear()  # training may change weights, or averages of them, in ways that no version tells
        return run(arch, _Slices(self), self.checkpointing and torch.is_grad_enabled(), tokens, target, mask,
                   target_mask, types, outputs)

    def writer(self, arch: Architecture) -> Writer:
        """A token-by-token decoder like the plain model of `arch`, with this store's weights."""
        return _SlicedDecoder(self, arch)

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
                raise InputError(f"supernet of {self.space.name}",
                                 f"{name} is stored as {tuple(shape)}, too small for {piece.shape}; "
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
        found = tensor if tensor is not None else self._buffers.get(name)
        if found is None:
            raise InputError(f"supernet of {self.space.name}",
                             f"stores no {name}; the architecture is not in this space")
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
    core: Core | None = None
    factors: tuple[str, ...] = ()

    def of(self, net: Supernet) -> Tensor:
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

    def _own(self, net: Supernet) -> Tensor:
        found = []
        for name, window, whole in zip(self.stored, self.windows, self.whole):
            tensor = net.get_stored(name)
            found.append(tensor if whole else tensor[window])
        joined = found[0] if len(found) == 1 else torch.cat(found, dim=self.axis)
        return joined if joined.shape == self.shape else joined.reshape(self.shape)


class _Slices:
    """The units of an architecture with slices of a store, for one forward pass."""

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


class _SlicedDecoder(Writer):
    """An architecture with slices of a store."""

    def __init__(self, net: Supernet, arch: Architecture) -> None:
        self.net, self.arch = net, arch

    def parts(self) -> UnitParts:
        return _Slices(self.net)


class _Skeleton:
    """A unit's plain module without weights. A call inserts weights and removes them again.

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
"""Maximum number per thread before the cache is cleared."""


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


def has_cores(names: Iterable[str]) -> bool:
    """Whether stored weights, by their names, were trained with cores."""
    return any(name.endswith(f"@{OWN}") for name in names)


def store_name(path: str, unit: Unit, piece: str) -> str:
    """The name of a stored tensor: path, kind, and name in the module."""
    return f"{path}.{unit.block.kind}.{piece}".replace(".", "/")


def _find_cores(space: SearchSpace) -> frozenset[str]:
    """The units, by the beginning of their names in the store, whose full matrices have factors to share."""
    found = set()
    for path, units in inventory(space).items():
        for kind in {unit.block.kind for unit in units}:
            same = [unit for unit in units if unit.block.kind == kind]
            if _has_core([each for unit in same for each in unit_entries(unit)]):
                found.add(store_name(path, same[0], ""))
    return frozenset(found)


def _has_core(known: Sequence[TensorEntry]) -> bool:
    """Whether the entries of a place have factors that are large enough for all their full matrices."""
    full = [(entry.shape[1], entry.layout.core) for entry in known if entry.layout.core is not None]
    return bool(full) and all(
        any(entry.name == core.right and entry.shape[1 if core.transposed else 0] >= columns for entry in known)
        for columns, core in full)


def _generator(seed: int, name: str, device: torch.device) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:7], "little"))
