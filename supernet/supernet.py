"""The shared store of a space's weights, and the forward pass of any architecture on slices of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from search_spaces.architecture import Architecture
from search_spaces.space.inventory import inventory
from search_spaces.space.search_space import SearchSpace
from search_spaces.units import Step, Unit
from supernet.build import build_on_meta, set_dropout
from supernet.generation import DecodingMixin
from supernet.layers.tables import Table
from supernet.parts import UnitParts
from supernet.store import WeightStore
from supernet.transformer import run


class Supernet(WeightStore):
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
        super().__init__(f"supernet of {space.name}", inventory(space), seed=seed, dropout=dropout, cores=cores)
        self.space = space

    def forward(self, arch: Architecture, tokens: Tensor, target: Tensor | None = None, *, mask: Tensor | None = None,
                target_mask: Tensor | None = None, types: Tensor | None = None,
                outputs: Sequence[str] | None = None) -> Any:
        """As `Transformer(arch).forward`, with this store's weights."""
        if torch.is_grad_enabled():
            self._folded.clear()  # training may change weights, or averages of them, without changing tensor versions
        return run(arch, _Slices(self), self.checkpointing and torch.is_grad_enabled(), tokens, target, mask,
                   target_mask, types, outputs)

    def decoder(self, arch: Architecture) -> DecodingMixin:
        """A token-by-token decoder like the plain model of `arch`, with this store's weights."""
        return _SlicedDecoder(self, arch)


class _Slices:
    """The units of an architecture with slices of a store, for one forward pass."""

    def __init__(self, net: Supernet) -> None:
        like = next(net.parameters())
        self.net = net
        self.mode = (net.training, net.dropout, like.device, like.dtype)
        self.bound: dict[str, dict[str, Tensor]] = {}

    def tensors(self, step: Step) -> Mapping[str, Tensor]:
        tensors = self.bound.get(step.path)
        if tensors is None:
            tensors = self.bound[step.path] = self.net.slices(step)
        return tensors

    def residual(self, step: Step) -> nn.Module:
        return _skeleton(step.unit, *self.mode).module

    def call(self, step: Step, *inputs: Any) -> Any:
        return _skeleton(step.unit, *self.mode).run(self.tensors(step), inputs)


class _SlicedDecoder(DecodingMixin):
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
"""Maximum number of cached skeletons per thread before the cache is cleared."""


def _skeleton(unit: Unit, training: bool, dropout: float, device: torch.device, dtype: torch.dtype) -> _Skeleton:
    """The cached skeleton of a unit for this thread."""
    cache: dict[Any, _Skeleton] = _local.__dict__.setdefault("cache", {})
    key = (unit, training, dropout, device, dtype)
    skeleton = cache.get(key)
    if skeleton is None:
        if len(cache) >= MOST_SKELETONS:
            cache.clear()
        skeleton = cache[key] = _Skeleton(*key)
    return skeleton
