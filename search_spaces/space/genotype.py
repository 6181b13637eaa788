"""Genotype -> Architecture, and the smallest and largest genotypes of a space."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from search_spaces import registry as kinds
from search_spaces.architecture import Architecture, Layer
from search_spaces.block import BlockConfig, head_facts
from search_spaces.errors import Fault, InputError
from search_spaces.kind import SKIP, Facts, Value, match
from search_spaces.residual import canonical_settings, unread_settings
from search_spaces.space.choices import Pairs, build_block, first_block, scaled_at
from search_spaces.space.dimensions import Gene, PartSpace, StackSpace
from search_spaces.space.layers import Scaling, Sharing

if TYPE_CHECKING:
    from search_spaces.space.search_space import SearchSpace


def decode(space: SearchSpace, genotype: Mapping[str, Value]) -> tuple[Architecture, frozenset[str]]:
    """The architecture of a genotype, and the genes it comes from: the others may have any value.

    Raises:
        InputError: a gene is wrong, unknown or missing.
    """
    chosen = _checked(space, genotype)
    used: set[str] = set()

    def read(gene: Gene, slot: int | None = None) -> Value:
        choices = gene.choices(slot)
        if len(choices) == 1:
            return choices[0]
        used.add(gene.key(slot))
        return chosen[gene.key(slot)]

    settings = {name: read(gene) for name, gene in space.settings.items()}
    used.difference_update(unread_settings(settings))
    settings = canonical_settings(settings)
    scaling = None
    if space.scaling:
        scaling = space.scaling.build({gene.name: read(gene) for gene in space.scaling.genes()})

    def block(part: PartSpace, slot: int | None, facts: Facts, extra: Pairs) -> BlockConfig:
        kind = str(read(part.kind, slot))
        return build_block(kind, tuple((dim, read(gene, slot)) for dim, gene in part.dims[kind].items()), facts, extra)

    embedding = block(space.embedding, None, space.facts(settings, False), first_block(scaling))
    head = block(space.head, None, head_facts(space.facts(settings, False), embedding), first_block(scaling))
    stacks: dict[str, tuple[Layer, ...]] = {}
    for name, stack in space.stacks.items():
        facts = space.facts(settings, causal=name == "decoder")
        kept = _kept(stack, read, scaling)
        sharing = Sharing.parse(read(stack.sharing))

        def place(part: PartSpace, slot: int, extra: Pairs, facts: Facts = facts) -> BlockConfig:
            return block(part, slot, facts, extra)

        stacks[name] = tuple(_layers(stack, kept, sharing, scaling, read, place))
    return assemble(space, settings, embedding, head, stacks), frozenset(used)


def assemble(space: SearchSpace, settings: Mapping[str, Value], embedding: BlockConfig, head: BlockConfig,
             stacks: Mapping[str, tuple[Layer, ...]]) -> Architecture:
    """The architecture with these parts."""
    return Architecture(
        family=space.family, vocab_size=space.vocab_size, context=space.context,
        n_classes=space.n_classes if "n_classes" in kinds.get(head.kind).facts else 0,
        n_types=space.n_types if "n_types" in kinds.get(embedding.kind).facts else 0,
        norm_eps=space.facts(settings, False).norm_eps,
        embedding=embedding, head=head, **stacks, **settings,  # type: ignore[arg-type]
    )


def _layers(stack: StackSpace, kept: tuple[int, ...], sharing: Sharing, scaling: Scaling | None, read: Any,
            block: Any) -> Iterator[Layer]:
    @cache
    def part(role: str, position: int) -> BlockConfig | None:
        slot = kept[position]
        alternatives = stack.layer_types[str(read(stack.layer_type, slot))].get(role)
        return block(alternatives, slot, scaled_at(scaling, position, len(kept))) if alternatives else None

    for i in range(len(kept)):
        mixer, ffn = sharing.leader("mixer", i), sharing.leader("ffn", i)
        between = part("between", i)
        if between is not None and between.kind == SKIP:
            between = None
        yield Layer(mixer=part("mixer", mixer), cross=part("cross", mixer), ffn=part("ffn", ffn),  # type: ignore[arg-type]
                    mixer_slot=kept[mixer], ffn_slot=kept[ffn], between=between,
                    between_slot=kept[i] if between is not None else None)


def _kept(stack: StackSpace, read: Any, scaling: Scaling | None) -> tuple[int, ...]:
    if stack.keep != "searched":
        return stack.fixed_slots(scaling.n_max if stack.depth is None and scaling else int(read(stack.depth)))
    wanted = [slot for slot in range(stack.slots) if read(stack.kept, slot)]
    missing = [slot for slot in range(stack.slots) if slot not in wanted]
    return tuple(sorted(wanted + missing[: max(stack.at_least - len(wanted), 0)]))


def _checked(space: SearchSpace, genotype: Mapping[str, Value]) -> dict[str, Value]:
    """The genotype with the space's own values: 2.0, as read from a table of numbers, becomes 2."""
    genes = space.genes
    faults = [Fault(str(name), "is not a gene of this space") for name in genotype if name not in genes]
    chosen: dict[str, Value] = {}
    for name, choices in genes.items():
        value = match(genotype[name], choices) if name in genotype else None
        if value is not None:
            chosen[name] = value
        elif name not in genotype:
            faults.append(Fault(name, "is missing"))
        else:
            allowed = ", ".join(map(repr, choices))
            faults.append(Fault(name, f"{genotype[name]!r} is not allowed; allowed: {allowed}"))
    if faults:
        raise InputError(f"genotype of {space.name}", faults)
    return chosen


def extreme(space: SearchSpace, end: int, rng: random.Random | None = None) -> dict[str, Value]:
    """The genotype with every gene at its least (`end` 0) or greatest (-1) value.

    Kinds and words have no size: the first or last listed is taken, or with `rng` one is drawn.
    """
    genotype: dict[str, Value] = {}

    def pick(gene: Gene, slot: int | None, measure: Any) -> Value:
        chosen = sorted(gene.choices(slot), key=measure)[end]
        genotype[gene.key(slot)] = chosen
        return chosen

    def listed(gene: Gene, slot: int | None = None) -> Value:
        order = gene.choices(slot)
        if rng is not None and any(isinstance(value, str) for value in order):
            return pick(gene, slot, lambda _: rng.random())
        return pick(gene, slot, lambda value: value if isinstance(value, (int, float)) else order.index(value))

    settings = {name: listed(gene) for name, gene in space.settings.items()}
    scaling = None
    if space.scaling:
        pick(space.scaling.depths, None, lambda text: Scaling.parse_depths(text)[::-1])
        chosen = {gene.name: listed(gene) for gene in (space.scaling.multiplier, space.scaling.order)}
        scaling = space.scaling.build({**chosen, space.scaling.depths.name: genotype[space.scaling.depths.name]})

    def part_genes(part: PartSpace, slot: int | None, facts: Facts) -> None:
        listed(part.kind, slot)
        for kind, genes in part.dims.items():
            known = {**facts.as_dict(), **dict(first_block(scaling))}
            for name, gene in genes.items():
                dim = kinds.get(kind).dim(name)
                if dim.type is str:
                    known[name] = listed(gene, slot)
                else:
                    raw = pick(gene, slot, lambda value, dim=dim, known=known: dim.resolve(value, known))
                    known[name] = dim.resolve(raw, known)

    facts = space.facts(settings, False)
    part_genes(space.embedding, None, facts)
    kind = str(genotype[space.embedding.kind.name])
    raw = tuple((dim, genotype[gene.name]) for dim, gene in space.embedding.dims[kind].items())
    part_genes(space.head, None, head_facts(facts, build_block(kind, raw, facts, first_block(scaling))))
    for name, stack in space.stacks.items():
        pick(stack.sharing, None, lambda text, slots=stack.slots: Sharing.parse(text).owners(slots))
        if stack.depth:
            listed(stack.depth)
        for slot in range(stack.slots):
            listed(stack.kept, slot)
            listed(stack.layer_type, slot)
            for parts in stack.layer_types.values():
                for part in parts.values():
                    part_genes(part, slot, space.facts(settings, name == "decoder"))
    return {name: genotype[name] for name in space.genes}
