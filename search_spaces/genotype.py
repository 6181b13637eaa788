"""Flat genotype <-> Architecture, exact in both directions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from search_spaces import kinds
from search_spaces.architecture import Architecture, BlockConfig, Layer, canonical_block
from search_spaces.errors import Fault, InputError
from search_spaces.genes import Gene, PartSpace, StackSpace, assignments
from search_spaces.layers import Scaling, Sharing
from search_spaces.schema import Facts, Value

if TYPE_CHECKING:
    from search_spaces.space import SearchSpace

Pairs = tuple[tuple[str, Value], ...]
STACK_ROLES = {"mixer": ("mixer", "cross"), "ffn": ("ffn",)}
"""The shared part -> the roles that go with it."""


def decode(space: SearchSpace, genotype: Mapping[str, Value]) -> Architecture:
    """The architecture of a genotype. Raises InputError for a wrong, unknown or missing gene."""
    _check(space, genotype)

    def read(gene: Gene, slot: int | None = None) -> Value:
        choices = gene.choices(slot)
        return choices[0] if len(choices) == 1 else genotype[gene.key(slot)]

    settings = {name: read(gene) for name, gene in space.settings.items()}
    scaling = None
    if space.scaling:
        scaling = space.scaling.build({gene.name: read(gene) for gene in space.scaling.genes()})

    def block(part: PartSpace, slot: int | None, facts: Facts, extra: Pairs) -> BlockConfig:
        kind = str(read(part.kind, slot))
        return build_block(kind, tuple((dim, read(gene, slot)) for dim, gene in part.dims[kind].items()), facts, extra)

    embedding = block(space.embedding, None, space.facts(settings, False), first_block(scaling))
    head = block(space.head, None, head_facts(space, settings, embedding), first_block(scaling))
    stacks: dict[str, tuple[Layer, ...]] = {}
    for name, stack in space.stacks.items():
        facts = space.facts(settings, causal=name == "decoder")
        kept = _kept(stack, read, scaling)
        sharing = Sharing.parse(read(stack.sharing))

        def place(part: PartSpace, slot: int, extra: Pairs, facts: Facts = facts) -> BlockConfig:
            return block(part, slot, facts, extra)

        stacks[name] = tuple(_layers(stack, kept, sharing, scaling, read, place))
    return assemble(space, settings, embedding, head, stacks)


def assemble(space: SearchSpace, settings: Mapping[str, Value], embedding: BlockConfig, head: BlockConfig,
             stacks: Mapping[str, tuple[Layer, ...]]) -> Architecture:
    """The architecture with these parts."""
    return Architecture(
        family=space.family, vocab_size=space.vocab_size, context=space.context, n_classes=space.n_classes,
        n_types=space.n_types, embedding=embedding, head=head, **stacks, **settings,  # type: ignore[arg-type]
    )


def _layers(stack: StackSpace, kept: tuple[int, ...], sharing: Sharing, scaling: Scaling | None, read: Any,
            block: Any) -> Iterator[Layer]:
    def part(role: str, position: int) -> BlockConfig | None:
        slot = kept[position]
        alternatives = stack.layers[str(read(stack.family, slot))].get(role)
        return block(alternatives, slot, scaled_at(scaling, position, len(kept))) if alternatives else None

    for i in range(len(kept)):
        mixer, ffn = sharing.leader("mixer", i), sharing.leader("ffn", i)
        yield Layer(mixer=part("mixer", mixer), cross=part("cross", mixer), ffn=part("ffn", ffn),  # type: ignore[arg-type]
                    mixer_slot=kept[mixer], ffn_slot=kept[ffn])


def _kept(stack: StackSpace, read: Any, scaling: Scaling | None) -> tuple[int, ...]:
    if stack.keep != "searched":
        return stack.fixed_slots(scaling.n_max if stack.depth is None and scaling else int(read(stack.depth)))
    wanted = [slot for slot in range(stack.slots) if read(stack.kept, slot)]
    missing = [slot for slot in range(stack.slots) if slot not in wanted]
    return tuple(sorted(wanted + missing[: max(stack.at_least - len(wanted), 0)]))


@lru_cache(maxsize=200_000)
def build_block(kind: str, raw: Pairs, facts: Facts, extra: Pairs) -> BlockConfig:
    """The canonical block of a kind with dims as a space file writes them."""
    values = kinds.get(kind).resolve(dict(raw), {**facts.as_dict(), **dict(extra)})
    return canonical_block(kind, values, facts)


def first_block(scaling: Scaling | None) -> Pairs:
    """What scaling gives the embedding and the head."""
    return tuple(scaling.first().items()) if scaling else ()


def scaled_at(scaling: Scaling | None, position: int, depth: int) -> Pairs:
    """What scaling gives the layer at a position of a stack of that depth."""
    return tuple(scaling.at(position, depth).items()) if scaling else ()


def head_facts(space: SearchSpace, settings: Mapping[str, Value], embedding: BlockConfig) -> Facts:
    """What the head knows under these settings and this embedding."""
    known = space.facts(settings, False).as_dict()
    rank = dict(embedding.dims).get("rank", known["width"])
    return Facts(**{**known, "rank": rank, "projects": kinds.get(embedding.kind).projects})  # type: ignore[arg-type]


def _check(space: SearchSpace, genotype: Mapping[str, Value]) -> None:
    genes = space.genes
    faults = [Fault(name, "unknown gene of this space") for name in genotype if name not in genes]
    for name, choices in genes.items():
        if name not in genotype:
            faults.append(Fault(name, "is missing"))
        elif not _among(genotype[name], choices):
            faults.append(Fault(name, f"{genotype[name]!r} is not allowed; allowed: {', '.join(map(repr, choices))}"))
    if faults:
        raise InputError(f"genotype of {space.name}", faults)


def _among(value: Value, choices: tuple[Value, ...]) -> bool:
    return any(value == choice and isinstance(value, bool) == isinstance(choice, bool) for choice in choices)


# --- the way back -----------------------------------------------------------------------------------


@lru_cache(maxsize=20_000)
def alternatives(part: PartSpace, slot: int | None, facts: Facts, extra: Pairs,
                 fixed: Pairs) -> dict[BlockConfig, tuple[tuple[Gene, Value], ...]]:
    """Every block a part can be at a slot, each with one choice of the part's own genes that gives it.

    Args:
        fixed: the values of genes that are not the part's own: those shared by the whole stack.
    """
    known = dict(fixed)

    def choices(gene: Gene) -> tuple[Value, ...]:
        return (known[gene.name],) if gene.name in known else gene.choices(slot)

    found: dict[BlockConfig, tuple[tuple[Gene, Value], ...]] = {}
    for kind in choices(part.kind):
        genes = part.dims[str(kind)]
        for values in itertools.product(*map(choices, genes.values())):
            block = build_block(str(kind), tuple(zip(genes, values)), facts, extra)
            found.setdefault(block, ((part.kind, kind), *zip(genes.values(), values)))
    return found


def stack_genes(stack: StackSpace) -> list[Gene]:
    """The genes with a choice that all slots of the stack share, other than depth and sharing."""
    apart = (stack.depth, stack.sharing, stack.kept)
    genes = dict.fromkeys(gene for gene in stack.genes() if gene not in apart)
    return [gene for gene in genes if not gene.per_slot and len(gene.choices()) > 1]


def scalings(space: SearchSpace) -> Iterator[tuple[dict[str, Value], Scaling | None]]:
    """Every block-wise scaling of the space with the genes that give it."""
    if not space.scaling:
        yield {}, None
        return
    for chosen in assignments(space.scaling.genes()):
        yield chosen, space.scaling.build(chosen)


class _ElsewhereError(Exception):
    """The architecture is not of the form just tried."""

    def __init__(self, key: str, says: str) -> None:
        self.fault = Fault(key, says)


def encode(space: SearchSpace, arch: Architecture) -> dict[str, Value]:
    """A genotype that decodes to `arch`. Raises InputError where there is none."""
    faults = [
        Fault(name, f"{getattr(arch, name)!r}; this space has {getattr(space, name)!r}")
        for name in ("family", "vocab_size", "context", "n_classes", "n_types")
        if getattr(arch, name) != getattr(space, name)
    ]
    settings = {name: getattr(arch, name) for name in space.settings}
    faults += [
        Fault(name, f"{settings[name]!r}; this space has {', '.join(map(repr, gene.choices()))}")
        for name, gene in space.settings.items() if not _among(settings[name], gene.choices())
    ]
    if not faults:
        for chosen, scaling in scalings(space):
            try:
                found = {**settings, **chosen, **_encode_parts(space, arch, settings, scaling)}
                return {name: found.get(name, choices[0]) for name, choices in space.genes.items()}
            except _ElsewhereError as error:
                faults.append(error.fault)
    raise InputError(f"architecture {arch.key[:12]} is not in space {space.name}", faults)


def _encode_parts(space: SearchSpace, arch: Architecture, settings: Mapping[str, Value],
                  scaling: Scaling | None) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for part, block, facts in ((space.embedding, arch.embedding, space.facts(settings, False)),
                               (space.head, arch.head, arch.head_facts())):
        known = alternatives(part, None, facts, first_block(scaling), ())
        if block not in known:
            raise _ElsewhereError(part.role, f"{block} is not among the {len(known)} alternatives")
        found |= {gene.name: value for gene, value in known[block]}
    for name, stack in space.stacks.items():
        found |= _encode_stack(stack, arch.stacks[name], space.facts(settings, name == "decoder"), scaling)
    return found


def _encode_stack(stack: StackSpace, layers: tuple[Layer, ...], facts: Facts,
                  scaling: Scaling | None) -> dict[str, Value]:
    reason = _ElsewhereError(stack.name, "")
    for text in stack.sharing.choices():
        sharing = Sharing.parse(text)
        try:
            kept = _find_kept(stack, layers, sharing, scaling)
        except _ElsewhereError as error:
            reason = error
            continue
        for fixed in assignments(stack_genes(stack)):
            try:
                found = {**fixed, stack.sharing.name: text, **_encode_depth(stack, kept)}
                for i in range(len(layers)):
                    found |= _encode_layer(stack, layers, kept, sharing, i, facts, scaling, fixed)
                return found
            except _ElsewhereError as error:
                reason = error
    raise reason


def _find_kept(stack: StackSpace, layers: tuple[Layer, ...], sharing: Sharing,
               scaling: Scaling | None) -> tuple[int, ...]:
    """The slots the layers stand in, some of which sharing hides."""
    depth = len(layers)
    if stack.keep == "searched":
        kept: list[int] = []
        for i, layer in enumerate(layers):
            own = [slot for part, slot in (("mixer", layer.mixer_slot), ("ffn", layer.ffn_slot))
                   if sharing.leader(part, i) == i]
            kept.append(own[0] if own else kept[-1] + 1)
        allowed = stack.at_least <= depth and kept == sorted(set(kept)) and kept[-1] < stack.slots
        slots = tuple(kept)
    else:
        allowed = depth in ((scaling.n_max,) if stack.depth is None and scaling else stack.depth.choices())  # type: ignore[union-attr]
        slots = stack.fixed_slots(depth) if allowed else ()
    if not allowed:
        raise _ElsewhereError(stack.name, f"{depth} layers in these slots are not a depth of this space")
    for i, layer in enumerate(layers):
        wanted = (slots[sharing.leader("mixer", i)], slots[sharing.leader("ffn", i)])
        if (layer.mixer_slot, layer.ffn_slot) != wanted:
            raise _ElsewhereError(f"{stack.name}.{i}", f"slots {layer.mixer_slot} and {layer.ffn_slot} follow from no "
                                                  "depth and sharing of this space")
    return slots


def _encode_depth(stack: StackSpace, kept: tuple[int, ...]) -> dict[str, Value]:
    if stack.keep == "searched":
        return {stack.kept.key(slot): slot in kept for slot in range(stack.slots)}
    return {stack.depth.name: len(kept)} if stack.depth else {}


def _encode_layer(stack: StackSpace, layers: tuple[Layer, ...], kept: tuple[int, ...], sharing: Sharing, i: int,
                  facts: Facts, scaling: Scaling | None, fixed: Mapping[str, Value]) -> dict[str, Value]:
    slot, extra, shared = kept[i], scaled_at(scaling, i, len(kept)), tuple(fixed.items())
    wanted = {role: getattr(layers[i], role) for part, roles in STACK_ROLES.items()
              if sharing.leader(part, i) == i for role in roles if getattr(layers[i], role) is not None}
    families = (fixed[stack.family.name],) if stack.family.name in fixed else stack.family.choices(slot)
    for family in families:
        known = {role: alternatives(stack.layers[str(family)][role], slot, facts, extra, shared) for role in wanted}
        if all(block in known[role] for role, block in wanted.items()):
            genes = [pair for role, block in wanted.items() for pair in known[role][block]]
            return {gene.key(slot): value for gene, value in ((stack.family, family), *genes)}
    text = ", ".join(map(str, wanted.values()))
    raise _ElsewhereError(f"{stack.name}.{i}", f"{text} is not among the alternatives of slot {slot}")


# --- least and greatest -------------------------------------------------------------------------------


def extreme(space: SearchSpace, end: int) -> dict[str, Value]:
    """The genotype with every gene at its least (`end` 0) or greatest (-1) value."""
    found: dict[str, Value] = {}

    def pick(gene: Gene, slot: int | None, measure: Any) -> Value:
        chosen = sorted(gene.choices(slot), key=measure)[end]
        found[gene.key(slot)] = chosen
        return chosen

    def listed(gene: Gene, slot: int | None = None) -> Value:
        order = gene.choices(slot)
        return pick(gene, slot, lambda value: value if isinstance(value, (int, float)) else order.index(value))

    settings = {name: listed(gene) for name, gene in space.settings.items()}
    scaling = None
    if space.scaling:
        pick(space.scaling.depths, None, lambda text: Scaling.parse_depths(text)[::-1])
        chosen = {gene.name: listed(gene) for gene in (space.scaling.multiplier, space.scaling.order)}
        scaling = space.scaling.build({**chosen, space.scaling.depths.name: found[space.scaling.depths.name]})

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

    part_genes(space.embedding, None, space.facts(settings, False))
    part_genes(space.head, None, space.facts(settings, False))
    for name, stack in space.stacks.items():
        pick(stack.sharing, None, lambda text, slots=stack.slots: Sharing.parse(text).owners(slots))
        if stack.depth:
            listed(stack.depth)
        for slot in range(stack.slots):
            listed(stack.kept, slot)
            listed(stack.family, slot)
            for parts in stack.layers.values():
                for part in parts.values():
                    part_genes(part, slot, space.facts(settings, name == "decoder"))
    return {name: found[name] for name in space.genes}
