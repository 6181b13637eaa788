"""The methods: each yields smaller and smaller architectures; the first one within the limits is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nas.stages.prune_to.request import PruneToRequest
from nas.stages.prune_to.shrinking import Shrinkable, keep_layers, shrinkables, shrunk
from search_spaces import Architecture, InputError
from search_spaces.space.layers import every_other
from search_spaces.units import plan
from supernet import Transformer
from supernet.store import WeightStore
from supernet.train.ordering.groups import AxisGroup
from supernet.train.ordering.order import permute, permute_stored, sorted_order

GRID = 128
"""How many factors uniform shrinking tries."""
Sizes = Mapping[Shrinkable, int]
Layers = Mapping[str, Sequence[int]]
"""By stack, the layers that stay."""
Priced = Callable[[Architecture], bool]
"""Whether all limited measures of an architecture are known: a profile covers the units of some spaces only."""


@dataclass(frozen=True)
class SmallerVersion:
    """A smaller architecture, and which layers of each stack it has."""

    arch: Architecture
    layers: Layers


@dataclass(frozen=True)
class OrderedModel:
    """A model whose channels and heads are ordered by importance.

    Args:
        store: its weights, ordered.
        scores: group -> the importance of its items, as they were before.
    """

    arch: Architecture
    store: WeightStore
    groups: Sequence[AxisGroup]
    scores: Mapping[str, Tensor]

    def fits(self, arch: Architecture) -> bool:
        """Whether the weights of an architecture are prefixes of the stored ones."""
        try:
            list(self.store.windows(arch))
        except InputError:
            return False
        return True

    def shrunk(self, sizes: Sizes) -> Architecture | None:
        """The architecture with other sizes; None if it is not valid, or its weights would not be prefixes."""
        with suppress(InputError):
            arch = shrunk(self.arch, sizes)
            return arch if self.fits(arch) else None
        return None


def ordered(store: WeightStore, model: Transformer, groups: Sequence[AxisGroup],
            scores: Mapping[str, Tensor]) -> OrderedModel:
    """Order a filled store by scores."""
    orders = {group.name: sorted_order(group, scores[group.name]) for group in groups}
    permute(store, groups, orders, permute_stored(store))
    return OrderedModel(model.arch, store, groups, scores)


def smaller_versions(request: PruneToRequest, ranked: OrderedModel, priced: Priced) -> Iterator[SmallerVersion]:
    """The smaller versions of a model by a method, from large to small, the whole one first.

    Versions that contradict the rules of a kind, or lack a value of a limit, are left out.
    """
    for sizes, layers in _sizes_and_layers(request, ranked, priced):
        arch = None
        with suppress(InputError):
            arch = ranked.shrunk(sizes) if sizes else keep_layers(ranked.arch, layers)
        if arch is not None and priced(arch):
            yield SmallerVersion(arch, layers)


def _sizes_and_layers(request: PruneToRequest, ranked: OrderedModel,
                      priced: Priced) -> Iterator[tuple[Sizes, Layers]]:
    everything: Layers = {stack: range(len(layers)) for stack, layers in ranked.arch.stacks.items()}
    if request.layers:
        yield {}, {**everything, **request.layers_of(ranked.arch)}
    elif request.method_name == "layers":
        yield from (({}, layers) for layers in fewer_layers(ranked.arch))
    else:
        method = {"uniform": uniform, "importance": by_importance}[request.method_name]
        yield from ((sizes, everything) for sizes in method(ranked, priced))


def fewer_layers(arch: Architecture) -> Iterator[Layers]:
    """One layer fewer at a time; stacks shrink in proportion."""
    most = max(map(len, arch.stacks.values()))
    for n in range(most, 0, -1):
        yield {stack: every_other(len(layers), max(round(n * len(layers) / most), 1))
               for stack, layers in arch.stacks.items()}


def uniform(ranked: OrderedModel, priced: Priced) -> Iterator[Sizes]:
    """Every size times the same factor, rounded to what is allowed; each result once."""
    allowed = _allowed(ranked, shrinkables(ranked.groups), priced)
    seen = set()
    for k in range(GRID, 0, -1):
        sizes = tuple((part, min(known, key=lambda n, whole=part.whole: abs(n - whole * k / GRID)))  # type: ignore[misc]
                      for part, known in allowed.items())
        if sizes not in seen:
            seen.add(sizes)
            yield dict(sizes)


def by_importance(ranked: OrderedModel, priced: Priced) -> Iterator[Sizes]:
    """Without the least important part of any layer, then without the second, and so on."""
    parts: list[tuple[float, Shrinkable, int]] = []
    inside = [size for size in shrinkables(ranked.groups) if size.in_layer]
    for size, known in _allowed(ranked, inside, priced).items():
        scores = size.importance(ranked.scores[size.group.name])
        parts += [(float(scores[less:more].mean()), size, less) for more, less in zip(known, known[1:])]
    sizes: dict[Shrinkable, int] = {}
    yield {}
    for _, size, less in sorted(parts, key=lambda part: part[0]):  # a stable sort: parts of one size stay in order
        sizes = {**sizes, size: less}
        yield sizes


def _allowed(ranked: OrderedModel, several: Sequence[Shrinkable], priced: Priced) -> dict[Shrinkable, list[int]]:
    """The sizes that the model's kinds and the limits allow, the largest first; equal units are tried once."""
    units = {step.path: step.unit for step in plan(ranked.arch)}
    known: dict[Any, list[int]] = {}
    allowed = {}
    for size in several:
        what = (units.get(size.path), size.dims)
        if what not in known:
            known[what] = [n for n in size.sizes()[1:] if (arch := ranked.shrunk({size: n})) is not None
                           and priced(arch)]
        allowed[size] = [size.whole, *known[what]]
    return allowed
