"""The possible blocks at each position of a space."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from search_spaces import registry as kinds
from search_spaces.block import BlockConfig, canonical_block
from search_spaces.kind import Facts, Value
from search_spaces.space.dimensions import Gene, PartSpace, StackSpace, assignments
from search_spaces.space.layers import Scaling

if TYPE_CHECKING:
    from search_spaces.space.search_space import SearchSpace

Pairs = tuple[tuple[str, Value], ...]
STACK_ROLES = {"mixer": ("mixer", "cross"), "ffn": ("ffn",), "between": ("between",)}
"""The part that a layer may share -> the roles that go with it; blocks between layers are never shared."""


@lru_cache(maxsize=200_000)
def build_block(kind: str, raw: Pairs, facts: Facts, extra: Pairs) -> BlockConfig:
    """The canonical block of a kind with dims as a space file writes them."""
    values = kinds.get(kind).resolve(dict(raw), {**facts.as_dict(), **dict(extra)})
    return canonical_block(kind, values, facts)


def first_block(scaling: Scaling | None) -> Pairs:
    """The scaling values of the embedding and the head."""
    return tuple(scaling.first().items()) if scaling else ()


def scaled_at(scaling: Scaling | None, position: int, depth: int) -> Pairs:
    """The scaling values of the layer at a position of a stack of that depth."""
    return tuple(scaling.at(position, depth).items()) if scaling else ()


@lru_cache(maxsize=20_000)
def alternatives(part: PartSpace, slot: int | None, facts: Facts, extra: Pairs,
                 fixed: Pairs) -> dict[BlockConfig, tuple[tuple[Gene, Value], ...]]:
    """Every block a part can be at a slot, each with one choice of the part's own genes that gives it.

    Args:
        fixed: the values of genes that are not the part's own: those shared by the whole stack.
    """
    known = dict(fixed)
    genes_of: dict[BlockConfig, tuple[tuple[Gene, Value], ...]] = {}
    for kind in part.kind.choices(slot, known):
        genes = part.dims[str(kind)]
        for values in itertools.product(*(gene.choices(slot, known) for gene in genes.values())):
            block = build_block(str(kind), tuple(zip(genes, values)), facts, extra)
            genes_of.setdefault(block, ((part.kind, kind), *zip(genes.values(), values)))
    return genes_of


def stack_assignments(stack: StackSpace) -> Iterator[dict[str, Value]]:
    """Every choice of the genes that all slots of a stack share, other than depth and sharing.

    Genes of a layer type or kind that the choice rules out have no value in it.
    """
    for chosen in [{}] if stack.layer_type.per_slot else list(assignments([stack.layer_type])):
        names = chosen.values() if chosen else {name for values in stack.layer_type.values for name in values}
        parts = [part for name, roles in stack.layer_types.items() if name in names for part in roles.values()]
        for choices in itertools.product(*map(part_assignments, parts)):
            yield {name: value for choice in (chosen, *choices) for name, value in choice.items()}


def part_assignments(part: PartSpace) -> list[dict[str, Value]]:
    """Every choice of the genes of a part that all slots share."""
    if part.kind.per_slot:
        shared = [gene for dims in part.dims.values() for gene in dims.values() if not gene.per_slot]
        return list(assignments(shared))
    choices = []
    for kind in part.kind.choices():
        shared = [gene for gene in part.dims[str(kind)].values() if not gene.per_slot]
        choices += [{part.kind.name: kind, **chosen} for chosen in assignments(shared)]
    return choices


def scalings(space: SearchSpace) -> Iterator[tuple[dict[str, Value], Scaling | None]]:
    """Every block-wise scaling of the space with the genes that give it."""
    if not space.scaling:
        yield {}, None
        return
    for chosen in assignments(space.scaling.genes()):
        yield chosen, space.scaling.build(chosen)
