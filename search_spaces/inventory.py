"""Every unit that can occur in a space, by the place its weights live: what a supernet stores and a device times."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from search_spaces.alternatives import (
    STACK_ROLES,
    alternatives,
    first_block,
    scaled_at,
    scalings,
    stack_assignments,
)
from search_spaces.block import BlockConfig, head_facts
from search_spaces.genes import StackSpace, assignments
from search_spaces.layers import Sharing
from search_spaces.space import SearchSpace
from search_spaces.units import Unit, make_unit


def inventory(space: SearchSpace) -> dict[str, tuple[Unit, ...]]:
    """Path -> the units that can stand there, in a fixed order."""
    found: dict[str, dict[Unit, None]] = defaultdict(dict)
    extras = list(dict.fromkeys(first_block(scaling) for _, scaling in scalings(space)))
    owners = {name: _owners(space, stack) for name, stack in space.stacks.items()}
    for settings in assignments(space.settings.values()):
        facts = space.facts(settings, False)
        for extra in extras:
            for embedding in alternatives(space.embedding, None, facts, extra, ()):
                found["embedding"][make_unit("embedding", embedding, facts)] = None
                if not settings["share_inputs"]:
                    found["target_embedding"][make_unit("embedding", embedding, facts)] = None
                known = head_facts(space.facts(settings, False), embedding)
                for head in alternatives(space.head, None, known, extra, ()):
                    found["head"][make_unit("head", head, known)] = None
        for name, stack in space.stacks.items():
            facts = space.facts(settings, causal=name == "decoder")
            if settings["placement"] == "pre":
                norm = BlockConfig(str(settings["norm"]))
                found[f"{name}.norm"][Unit("norm", norm, facts.pick(("width",)))] = None
            for (role, slot), places in owners[name].items():
                for block in _blocks(stack, role, slot, places, facts):
                    found[f"{name}.{slot}.{role}"][make_unit(role, block, facts)] = None
    return {path: tuple(units) for path, units in found.items()}


def _owners(space: SearchSpace, stack: StackSpace) -> dict[tuple[str, int], list[Any]]:
    """(role, slot) that can own weights -> what scaling can give a block there."""
    found: dict[tuple[str, int], dict[Any, None]] = defaultdict(dict)
    modes = [Sharing.parse(text) for text in stack.sharing.choices()]
    for _, scaling in scalings(space):
        for kept in stack.kept_sets(scaling):
            for position, slot in enumerate(kept):
                for part, roles in STACK_ROLES.items():
                    if any(mode.leader(part, position) == position for mode in modes):
                        for role in roles:
                            found[role, slot][scaled_at(scaling, position, len(kept))] = None
            if scaling is None and len(found) == stack.slots * 3:
                break
    return {place: list(extras) for place, extras in found.items()}


def _blocks(stack: StackSpace, role: str, slot: int, places: list[Any], facts: Any) -> dict[BlockConfig, None]:
    found: dict[BlockConfig, None] = {}
    for fixed in stack_assignments(stack):
        family = stack.family
        for name in (fixed[family.name],) if family.name in fixed else family.choices(slot):
            part = stack.layers[str(name)].get(role)
            if part is None:
                continue
            for extra in places:
                at = None if part.uniform else slot
                found |= dict.fromkeys(alternatives(part, at, facts, extra, tuple(fixed.items())))
    return found
