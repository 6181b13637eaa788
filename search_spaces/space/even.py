"""Genotypes whose kinds are drawn evenly, so that a supernet trains all of them equally.

A genotype drawn uniformly is not even over what it decodes to: some settings turn one kind into another (long-short
range attention in which every channel attends *is* attention), so some kinds are rare, and the largest of some is
always another kind.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from search_spaces.block import BlockConfig, head_facts
from search_spaces.kind import Facts, Value
from search_spaces.space.choices import Pairs, alternatives, build_block, first_block, scaled_at
from search_spaces.space.dimensions import Gene, PartSpace
from search_spaces.space.genotype import extreme

if TYPE_CHECKING:
    from search_spaces.space.search_space import SearchSpace

Blocks = Mapping[BlockConfig, tuple[tuple[Gene, Value], ...]]


def draw_even(space: SearchSpace, rng: random.Random, end: int | None = None) -> dict[str, Value]:
    """A genotype whose canonical kinds are drawn evenly at every place.

    Args:
        end: 0 or -1 for the least or greatest value of every dimension; by default dimensions are drawn, too.
    """
    genes = ({name: rng.choice(values) for name, values in space.genes.items()} if end is None
             else extreme(space, end, rng))

    def value(gene: Gene, slot: int | None = None) -> Value:
        choices = gene.choices(slot)
        return choices[0] if len(choices) == 1 else genes[gene.key(slot)]

    settings = {name: value(gene) for name, gene in space.settings.items()}
    scaling = space.scaling.build({gene.name: value(gene) for gene in space.scaling.genes()}) if space.scaling else None

    def place(part: PartSpace, slot: int | None, facts: Facts, extra: Pairs, kind: str | None = None) -> None:
        """Choose a block of the part, of a kind or of one drawn evenly."""
        by_kind = _by_kind(part, slot, facts, extra, value)
        blocks = by_kind[kind or rng.choice(sorted(by_kind))]
        chosen = _pick(blocks, rng, end)
        genes.update({gene.key(slot): drawn for gene, drawn in blocks[chosen] if gene.key(slot) in genes})

    facts, extra = space.facts(settings, False), first_block(scaling)
    place(space.embedding, None, facts, extra)
    name = str(value(space.embedding.kind))
    raw = tuple((dim, value(gene)) for dim, gene in space.embedding.dims[name].items())
    place(space.head, None, head_facts(facts, build_block(name, raw, facts, extra)), extra)
    for stack_name, stack in space.stacks.items():
        facts = space.facts(settings, causal=stack_name == "decoder")
        for slot in range(stack.slots):
            extra = scaled_at(scaling, slot, stack.slots)
            types = stack.layer_type.choices(slot) if stack.layer_type.per_slot else (value(stack.layer_type, slot),)
            mixers = [(name, kind) for name in map(str, types)
                      for kind in sorted(_by_kind(stack.layer_types[name]["mixer"], slot, facts, extra, value))]
            layer_type, mixer = rng.choice(mixers)
            if len(types) > 1:
                genes[stack.layer_type.key(slot)] = layer_type
            for role, part in stack.layer_types[layer_type].items():
                place(part, slot, facts, extra, mixer if role == "mixer" else None)
    return genes


def _by_kind(part: PartSpace, slot: int | None, facts: Facts, extra: Pairs,
             value: object) -> dict[str, dict[BlockConfig, tuple[tuple[Gene, Value], ...]]]:
    """The blocks a part can be at a slot by canonical kind, under the values of genes that all slots share."""
    shared = () if slot is None else tuple(
        (gene.name, value(gene, slot)) for gene in part.genes() if not gene.per_slot)  # type: ignore[operator]
    by_kind: dict[str, dict[BlockConfig, tuple[tuple[Gene, Value], ...]]] = defaultdict(dict)
    for block, choice in alternatives(part, slot, facts, extra, shared).items():
        by_kind[block.kind][block] = choice
    return by_kind


def _pick(blocks: Blocks, rng: random.Random, end: int | None) -> BlockConfig:
    if end is None:
        return rng.choice(list(blocks))
    shuffled = rng.sample(list(blocks), len(blocks))  # words have no size, so ties are drawn
    return sorted(shuffled, key=_size)[end]


def _size(block: BlockConfig) -> float:
    """Grows with every dimension of a block that has a size."""
    return math.prod(1 + float(value) for _, value in block.dims if not isinstance(value, str))
