"""Every unit that can occur in a space, by the path of its weights: what a supernet stores and a device measures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from search_spaces.block import BlockConfig, head_facts
from search_spaces.kind import Facts, Value
from search_spaces.space.choices import (
    STACK_ROLES,
    Pairs,
    alternatives,
    first_block,
    scaled_at,
    scalings,
    stack_assignments,
)
from search_spaces.space.dimensions import StackSpace
from search_spaces.space.layers import Sharing
from search_spaces.space.search_space import SearchSpace
from search_spaces.units import Outline, Place, Unit, walk

Owners = dict[tuple[int, str], list[Pairs]]
"""(slot, role) that can own weights -> possible scaling values of a block there."""


def inventory(space: SearchSpace) -> dict[str, tuple[Unit, ...]]:
    """Path -> the possible units there, in a fixed order."""
    by_path: dict[str, dict[Unit, None]] = defaultdict(dict)
    owners = {name: _owners(space, stack) for name, stack in space.stacks.items()}
    rank = {path: i for i, path in enumerate(_ordered(owners))}
    for settings in space.every_settings():
        for step in sorted(walk(_outline(space, settings, owners)), key=lambda step: rank[step.path]):
            by_path[step.path][step.unit] = None
    return {path: tuple(units) for path, units in by_path.items()}


def _outline(space: SearchSpace, settings: dict[str, Value], owners: dict[str, Owners]) -> Outline:
    """The parts of all architectures of a space with these settings."""
    facts = space.facts(settings, False)
    ends: list[tuple[BlockConfig, Sequence[BlockConfig]]] = []
    for extra in dict.fromkeys(first_block(scaling) for _, scaling in scalings(space)):
        for embedding in alternatives(space.embedding, None, facts, extra, ()):
            heads = alternatives(space.head, None, head_facts(facts, embedding), extra, ())
            ends.append((embedding, tuple(heads)))
    stacks: dict[str, Sequence[Place]] = {}
    for name, stack in space.stacks.items():
        known = space.facts(settings, causal=name == "decoder")
        stacks[name] = [Place(role, slot, slot, tuple(_blocks(stack, role, slot, places, known)), optional=True)
                        for (slot, role), places in sorted(owners[name].items(), key=lambda item: item[0][0])]
    outline = Outline(facts, bool(settings["share_inputs"]), ends, stacks)
    return outline._replace(stacks={name: _on_every_length(outline, name, stack)
                                    for name, stack in space.stacks.items()})


def _on_every_length(outline: Outline, name: str, stack: StackSpace) -> Sequence[Place]:
    """The positions of a stack.

    Layers that share weights run at different positions, so every one may run on every fraction of the tokens.
    """
    places = outline.stacks[name]
    if stack.sharing.choices() == ("none",) or not any(place.role == "between" and place.blocks for place in places):
        return places
    steps = walk(outline._replace(ends=(), stacks={name: places}))
    fractions = tuple(dict.fromkeys((1.0, *(step.unit.length_fraction for step in steps))))
    return [place._replace(length_fractions=fractions) for place in places]


def _ordered(owners: dict[str, Owners]) -> list[str]:
    """All paths, in the order in which a supernet stores them: the rounding of sums over all weights depends on it."""
    paths = ["embedding", "target_embedding", "head"]
    for name, places in owners.items():
        paths.append(f"{name}.norm")
        for slot, role in places:
            paths += [f"{name}.{slot}.{role}", *([f"{name}.{slot}.restore"] if role == "between" else [])]
    return paths


def _owners(space: SearchSpace, stack: StackSpace) -> Owners:
    """The positions of a stack that can own weights, ordered by the smallest depth that has them."""
    blocks: dict[tuple[int, str], dict[Pairs, None]] = defaultdict(dict)
    modes = [Sharing.parse(text) for text in stack.sharing.choices()]
    for _, scaling in scalings(space):
        for kept in stack.kept_sets(scaling):
            for position, slot in enumerate(kept):
                for part, roles in STACK_ROLES.items():
                    if any(mode.leader(part, position) == position for mode in modes):
                        for role in roles:
                            blocks[slot, role][scaled_at(scaling, position, len(kept))] = None
            if scaling is None and len(blocks) == stack.slots * sum(map(len, STACK_ROLES.values())):
                break
    return {place: list(extras) for place, extras in blocks.items()}


def _blocks(stack: StackSpace, role: str, slot: int, places: list[Pairs], facts: Facts) -> dict[BlockConfig, None]:
    blocks: dict[BlockConfig, None] = {}
    for fixed in stack_assignments(stack):
        for name in stack.layer_type.choices(slot, fixed):
            part = stack.layer_types[str(name)].get(role)
            if part is None:
                continue
            for extra in places:
                at = None if part.uniform else slot
                blocks |= dict.fromkeys(alternatives(part, at, facts, extra, tuple(fixed.items())))
    return blocks
