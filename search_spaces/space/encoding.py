"""Architecture -> a genotype that decodes to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from search_spaces import registry as kinds
from search_spaces.architecture import Architecture, Layer
from search_spaces.block import BlockConfig
from search_spaces.errors import Fault, InputError
from search_spaces.kind import NORM_EPS, SKIP, Facts, Value, match
from search_spaces.residual import PLAIN, canonical_settings, unread_settings
from search_spaces.space.choices import STACK_ROLES, alternatives, first_block, scaled_at, scalings, stack_assignments
from search_spaces.space.dimensions import StackSpace
from search_spaces.space.layers import Scaling, Sharing

if TYPE_CHECKING:
    from search_spaces.space.search_space import SearchSpace


class _ElsewhereError(Exception):
    """The architecture does not match the form just tried."""

    def __init__(self, key: str, message: str) -> None:
        self.fault = Fault(key, message)


def encode(space: SearchSpace, arch: Architecture) -> dict[str, Value]:
    """A genotype that decodes to `arch`. Raises InputError if there is none."""
    faults = [
        Fault(name, f"{getattr(arch, name)!r}; this space has {wanted!r}")
        for name, wanted in _fixed(space, arch).items() if getattr(arch, name) != wanted
    ]
    settings = {name: getattr(arch, name) for name in space.settings}
    settings |= {name: space.settings[name].choices()[0] for name in unread_settings(settings)}
    faults += [
        Fault(name, f"{settings[name]!r}; this space has {', '.join(map(repr, gene.choices()))}")
        for name, gene in space.settings.items() if match(settings[name], gene.choices()) is None
    ]
    if not faults:
        for chosen, scaling in scalings(space):
            try:
                genotype = {**settings, **chosen, **_encode_parts(space, arch, canonical_settings(settings), scaling)}
                return {name: genotype.get(name, choices[0]) for name, choices in space.genes.items()}
            except _ElsewhereError as error:
                faults.append(error.fault)
    raise InputError(f"architecture {arch.key[:12]} is not in space {space.name}", faults)


def _fixed(space: SearchSpace, arch: Architecture) -> dict[str, str | int | float]:
    """Properties common to all architectures of the space; classes and types only if a block uses them."""
    head, embedding = kinds.get(arch.head.kind).facts, kinds.get(arch.embedding.kind).facts
    return {"family": space.family, "vocab_size": space.vocab_size, "context": space.context,
            "n_classes": space.n_classes if "n_classes" in head else 0,
            "n_types": space.n_types if "n_types" in embedding else 0,
            "norm_eps": space.norm_eps if NORM_EPS.get(arch.norm) else 0.0,
            **({} if "residual" in space.settings else {"residual": PLAIN})}


def _encode_parts(space: SearchSpace, arch: Architecture, settings: Mapping[str, Value],
                  scaling: Scaling | None) -> dict[str, Value]:
    genotype: dict[str, Value] = {}
    for part, block, facts in ((space.embedding, arch.embedding, space.facts(settings, False)),
                               (space.head, arch.head, arch.head_facts())):
        known = alternatives(part, None, facts, first_block(scaling), ())
        if block not in known:
            raise _ElsewhereError(part.role, f"{block} is not among the {len(known)} alternatives")
        genotype |= {gene.name: value for gene, value in known[block]}
    for name, stack in space.stacks.items():
        genotype |= _encode_stack(stack, arch.stacks[name], space.facts(settings, name == "decoder"), scaling)
    return genotype


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
        for fixed in stack_assignments(stack):
            try:
                genotype = {**fixed, stack.sharing.name: text, **_encode_depth(stack, kept)}
                for i in range(len(layers)):
                    genotype |= _encode_layer(stack, layers, kept, sharing, i, facts, scaling, fixed)
                return genotype
            except _ElsewhereError as error:
                reason = error
    raise reason


def _find_kept(stack: StackSpace, layers: tuple[Layer, ...], sharing: Sharing,
               scaling: Scaling | None) -> tuple[int, ...]:
    """The slots of the layers, some of which are hidden by sharing."""
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
        raise _ElsewhereError(stack.name, f"{depth} layers in these slots do not correspond to a depth of this space")
    for i, layer in enumerate(layers):
        wanted = (slots[sharing.leader("mixer", i)], slots[sharing.leader("ffn", i)])
        if (layer.mixer_slot, layer.ffn_slot) != wanted or layer.between_slot not in (None, slots[i]):
            raise _ElsewhereError(f"{stack.name}.{i}", f"slots {layer.mixer_slot} and {layer.ffn_slot} match no depth "
                                                  "and sharing of this space")
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
    for name in stack.layer_type.choices(slot, fixed):
        parts = stack.layer_types[str(name)]
        blocks = {"between": BlockConfig(SKIP), **wanted} if "between" in parts else wanted
        known = {role: alternatives(parts[role], slot, facts, extra, shared) for role in blocks if role in parts}
        if all(block in known.get(role, ()) for role, block in blocks.items()):
            genes = [pair for role, block in blocks.items() for pair in known[role][block]]
            return {gene.key(slot): value for gene, value in ((stack.layer_type, name), *genes)}
    text = ", ".join(map(str, wanted.values()))
    raise _ElsewhereError(f"{stack.name}.{i}", f"{text} is not among the alternatives of slot {slot}")
