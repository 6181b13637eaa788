"""Smaller versions of an architecture, whose weights are prefixes of its ordered ones.

What can shrink is derived from permutation groups (`supernet.train.ordering.groups`), so plugin kinds declare nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from nas.core.sizes import hardware_step
from search_spaces import Architecture
from search_spaces import registry as kinds
from search_spaces.architecture import Layer
from search_spaces.block import BlockConfig, canonical_block, head_facts
from search_spaces.kind import Facts
from supernet.train.ordering.groups import WIDTH, AxisGroup

LEAST_SIZES = 8
"""Minimum number of sizes to shrink to; otherwise a smaller step is used."""
KEPT = ("head_dim",)
"""Dims that are not shrunk: attention divides scores by the root of the head size, so a narrower head would differ."""


@dataclass(frozen=True)
class Shrinkable:
    """A size of an architecture that prefixes can shrink.

    Args:
        group: the axes that shrink with it.
        path: the unit whose dims it sets; empty for the width.
        dims: the names of these dims, each with its value per item: key/value heads may have several query heads.
    """

    group: AxisGroup
    path: str
    dims: tuple[tuple[str, int], ...] = ()

    @property
    def whole(self) -> int:
        """Its size now."""
        return self.group.size // self.group.within

    @property
    def in_layer(self) -> bool:
        """Whether it belongs to a sub-layer."""
        return self.path.count(".") == 2

    def sizes(self) -> list[int]:
        """What it may shrink to, the largest first: multiples that suit the hardware where there are enough."""
        return list(range(self.whole, 0, -hardware_step(self.whole, LEAST_SIZES)))

    def importance(self, scores: Tensor) -> Tensor:
        """The importance of the items, the highest first; the mean over the parts where each has items of its own."""
        return scores.view(self.group.within, -1).sort(dim=1, descending=True).values.mean(0)


def shrinkables(groups: Sequence[AxisGroup]) -> list[Shrinkable]:
    """What can shrink.

    Items may lie within those of another group. If they have axes of their own (the queries of each key/value head),
    every part shrinks alike; otherwise (query heads one after the other) they shrink with the other group alone.
    """
    sizes = []
    for group in groups:
        if group.name == WIDTH:
            sizes.append(Shrinkable(group, ""))
            continue
        path, _, names = group.name.partition(" ")
        if names not in KEPT and (group.within == 1 or _has_own_axes(group)):
            inner = [(other.name.partition(" ")[2], other.size // group.size) for other in groups
                     if other.name.partition(" ")[0] == path and other.within == group.size > 1
                     and not _has_own_axes(other)]
            sizes.append(Shrinkable(group, path, (*((name, 1) for name in names.split(" and ")), *inner)))
    return sizes


def _has_own_axes(group: AxisGroup) -> bool:
    return any(axis.span > 1 for axis in group.axes)


def shrunk(arch: Architecture, sizes: Mapping[Shrinkable, int]) -> Architecture:
    """The architecture with other sizes. Raises InputError where they contradict the rules of a kind."""
    width = next((n for size, n in sizes.items() if not size.path), arch.width)
    dims: dict[str, dict[str, int]] = {}
    for size, n in sizes.items():
        dims.setdefault(size.path, {}).update({name: n * per for name, per in size.dims})
    facts = replace(arch.facts(causal=False), width=width)
    embedding = _block(arch.embedding, facts, {**_following(arch.embedding, arch.width, width),
                                               **dims.get("embedding", {})})
    known = head_facts(facts, embedding)
    head = _block(arch.head, known, {**_following(arch.head, arch.width, width), **dims.get("head", {})})
    stacks: dict[str, Any] = {
        stack: tuple(_layer(layer, stack, replace(facts, causal=stack == "decoder"), dims) for layer in layers)
        for stack, layers in arch.stacks.items()}
    return replace(arch, width=width, embedding=embedding, head=head, **stacks)


def _following(block: BlockConfig, before: int, width: int) -> dict[str, int]:
    """The ranks of an embedding or a head that are full stay so."""
    counts = {dim.name for dim in kinds.get(block.kind).dims if dim.type is int}
    return {name: width for name, value in block.dims if name in counts and value == before}


def _layer(layer: Layer, stack: str, facts: Facts, dims: Mapping[str, Mapping[str, int]]) -> Layer:
    blocks: dict[str, Any] = {role: _block(block, facts, dims.get(f"{stack}.{slot}.{role}", {}))
                              for role, block, slot in layer.parts()}
    return replace(layer, **blocks)


def _block(block: BlockConfig, facts: Facts, dims: Mapping[str, int]) -> BlockConfig:
    return canonical_block(block.kind, {**dict(block.dims), **dims}, facts)


def keep_layers(arch: Architecture, layers: Mapping[str, Sequence[int]]) -> Architecture:
    """The architecture with some layers of its stacks. Raises InputError where they do not fit together."""
    kept: dict[str, Any] = {stack: tuple(arch.stacks[stack][i] for i in chosen) for stack, chosen in layers.items()}
    return replace(arch, **kept)
