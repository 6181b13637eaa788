"""Validation of architectures: all faults, each with its key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from search_spaces import registry as kinds
from search_spaces import residual as residuals
from search_spaces.block import BlockConfig, block_faults
from search_spaces.errors import Fault, shown
from search_spaces.kind import FAMILIES, GREATEST, MOST_SLOTS, NORM_EPS, NORMS, PLACEMENTS, POSITIONS, SKIP

if TYPE_CHECKING:
    from search_spaces.architecture import Architecture, Layer


def architecture_faults(arch: Architecture) -> Iterator[Fault]:
    """All contradictions between fields, violations of the kinds' rules, and non-canonical values."""
    plain = list(_plain_faults(arch))
    yield from plain
    if plain:
        return
    for name in ("encoder", "decoder"):
        layers = getattr(arch, name)
        if (name in FAMILIES[arch.family]) != bool(layers):
            yield Fault(name, "must have layers" if not layers else f"family {arch.family} has no {name}")
            return
    embedding = block_faults(arch.embedding, "embedding", arch.facts(causal=arch.family != "encoder"))
    yield from _placed(embedding, "embedding")
    if not embedding:  # a head is checked together with the embedding it may tie to
        yield from _placed(block_faults(arch.head, "head", arch.head_facts()), "head")
        yield from _family_faults(arch)
    for name, layers in arch.stacks.items():
        yield from _stack_faults(name, layers, arch)


def _family_faults(arch: Architecture) -> Iterator[Fault]:
    head = kinds.registry().get(arch.head.kind)
    if head and head.role == "head" and arch.family != "encoder" and not head.over_words:
        yield Fault("head.kind", f"{head.name} returns no token logits, which the family {arch.family} needs")
    for name, block in (("n_classes", arch.head), ("n_types", arch.embedding)):
        kind = kinds.registry().get(block.kind)
        if kind and getattr(arch, name) and name not in kind.facts:
            yield Fault(name, f"{getattr(arch, name)} has no effect with {kind.name}; write 0")


def _plain_faults(arch: Architecture) -> Iterator[Fault]:
    words = {"family": tuple(FAMILIES), "positions": POSITIONS, "norm": NORMS, "placement": PLACEMENTS,
             "residual": tuple(residuals.names())}
    for name, allowed in words.items():
        if getattr(arch, name) not in allowed:
            yield Fault(name, f"{shown(getattr(arch, name))} is not allowed; allowed: {', '.join(allowed)}")
    for name, least in {"vocab_size": 1, "context": 1, "width": 1, "n_classes": 0, "n_types": 0}.items():
        value = getattr(arch, name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= GREATEST:
            yield Fault(name, f"{shown(value)} is not allowed; allowed: a whole number from {least} to 10^9")
    for name in ("bias", "share_inputs"):
        if not isinstance(getattr(arch, name), bool):
            yield Fault(name, f"{shown(getattr(arch, name))} is not allowed; allowed: true or false")
    yield from _eps_faults(arch)
    if arch.family != "seq2seq" and arch.share_inputs is False:
        yield Fault("share_inputs", "false is allowed for seq2seq only")
    if arch.residual in words["residual"] and arch.placement in PLACEMENTS:
        settings = {"placement": arch.placement, "residual": arch.residual}
        canonical = residuals.canonical_settings(settings)
        if canonical != settings:
            yield Fault("placement", f"{arch.placement!r} has no effect with the residual {arch.residual}; "
                                     f"write {canonical['placement']}")


def _eps_faults(arch: Architecture) -> Iterator[Fault]:
    usual = NORM_EPS.get(arch.norm, 0.0) if isinstance(arch.norm, str) else 0.0
    given = arch.norm_eps
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given <= 1:
        yield Fault("norm_eps", f"{shown(given)} is not allowed; allowed: a number from 0 to 1")
    elif given and not usual:
        yield Fault("norm_eps", f"{given:g} has no effect with the norm {arch.norm}; leave it out")
    elif given and given == usual:
        yield Fault("norm_eps", f"{given:g} is the default of {arch.norm}; leave it out")


def _stack_faults(name: str, layers: tuple[Layer, ...], arch: Architecture) -> Iterator[Fault]:
    facts = arch.facts(causal=name == "decoder")
    has_cross = arch.family == "seq2seq" and name == "decoder"
    owners: dict[tuple[str, int], BlockConfig] = {}
    for i, layer in enumerate(layers):
        if (layer.cross is not None) != has_cross:
            yield Fault(f"{name}.{i}.cross", "is missing" if has_cross else "is allowed in a seq2seq decoder only")
        if layer.between is None and layer.between_slot is not None:
            yield Fault(f"{name}.{i}.between_slot", f"{layer.between_slot!r} is not allowed without between")
        for role, block, slot in layer.parts():
            where = f"{name}.{i}.{role}"
            if block.kind == SKIP:
                yield Fault(where, f"{SKIP} is for space files; in an architecture, omit between")
            if isinstance(slot, bool) or not isinstance(slot, int) or not 0 <= slot < MOST_SLOTS:
                allowed = f"a whole number from 0 to {MOST_SLOTS - 1}"
                yield Fault(f"{where}.slot", f"{shown(slot)} is not allowed; allowed: {allowed}")
            elif owners.setdefault((role, slot), block) != block:
                yield Fault(where, f"{block} uses slot {slot}, which holds {owners[role, slot]}; "
                                   "all layers of a slot share one kind and one set of dims")
            yield from _placed(block_faults(block, role, facts), where)


def _placed(faults: tuple[Fault, ...], where: str) -> Iterator[Fault]:
    for fault in faults:
        yield Fault(f"{where}.{fault.key}" if fault.key else where, fault.message)
