"""Architecture -> the units that are built, counted and timed.

A unit is one sub-layer (norm, block and residual together), an embedding, a block between two layers, a closing norm or
a head, with everything its module is built from and nothing else. So equal units have equal cost and are measured once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, product
from typing import NamedTuple

from search_spaces import registry as kinds
from search_spaces import residual as residuals
from search_spaces.architecture import Architecture
from search_spaces.block import BlockConfig, head_facts
from search_spaces.kind import OPTIONAL_FACTS, SKIP, Facts, Value

SUBLAYERS = ("mixer", "cross", "ffn")
LENGTHS = ("between", "restore")
"""Roles that change the length of the sequence and its mask."""
COST_ROLES = ("embedding", *SUBLAYERS, "norm", "head")
"""Roles that costs are summed by (`Unit.cost_role`)."""


@dataclass(frozen=True)
class Unit:
    """The smallest part of a plain model with its own cost.

    Args:
        role: `embedding`, `mixer`, `cross`, `ffn`, `between`, `restore`, `norm` or `head`.
        block: its kind and dims; a closing norm has the norm's name as kind.
        facts: the facts its kind asks for and, for a sub-layer, those of its norm and residual.
        length_fraction: the fraction of the sequence's tokens it runs on: less than 1 after a block that shortens the
            sequence.
    """

    role: str
    block: BlockConfig
    facts: tuple[tuple[str, Value], ...]
    length_fraction: float = 1.0

    def __str__(self) -> str:
        inner = ", ".join(f"{name}={value}" for name, value in (*self.facts, *self.block.dims))
        fraction = f" on {self.length_fraction:.3g} of the tokens" if self.length_fraction != 1 else ""
        return f"{self.block.kind}({inner}){fraction}"

    @property
    def cost_role(self) -> str:
        """The role that its costs are summed with: blocks that change the length count as norms.

        A separate sum for them would invalidate stored regressions.
        """
        return "norm" if self.role in LENGTHS else self.role

    def pick(self, names: Iterable[str]) -> dict[str, Value]:
        """The named facts, those that it leaves out at their default."""
        facts = {**OPTIONAL_FACTS, **dict(self.facts)}
        return {name: facts[name] for name in names}

    def settings(self) -> dict[str, Value]:
        """What the module of its block is built from: the facts and all dims of its kind."""
        return {**self.pick(kinds.get(self.block.kind).facts), **self.block.filled()}

    def length(self, tokens: int) -> int:
        """Number of tokens it runs on for a sequence of that length."""
        return math.ceil(tokens * self.length_fraction - 1e-9)  # a third of 9 tokens is 3


@dataclass(frozen=True)
class Step:
    """One unit in the order of execution. Steps with the same path share weights.

    Args:
        path: where the weights live, for example `decoder.3.mixer`.
        stack: the stack it runs in, `encoder` or `decoder`; the head runs in the last one.
        layer: the index of the layer in its stack; -1 outside the layers.
    """

    path: str
    unit: Unit
    stack: str
    layer: int = -1

    @property
    def role(self) -> str:
        """The role of its unit."""
        return self.unit.role

    @property
    def ties(self) -> bool:
        """Whether it is a head that reads the embedding's tensors."""
        return self.unit.role == "head" and kinds.get(self.unit.block.kind).ties


class Place(NamedTuple):
    """A position in a stack and its possible blocks: one in an architecture, several in a space.

    Args:
        layer: the index of the layer in its stack.
        length_fractions: the fractions of the tokens that it may run on; None if the places before it decide.
        optional: whether there are architectures without this place.
    """

    role: str
    slot: int
    layer: int
    blocks: Sequence[BlockConfig]
    length_fractions: Sequence[float] | None = None
    optional: bool = False


class Outline(NamedTuple):
    """Input of `walk`: one architecture, or all architectures of a space with the same settings.

    Args:
        facts: of the embedding.
        share_inputs: whether both stacks read one embedding.
        ends: embeddings, each with the heads that may go with it.
        stacks: the places of each stack in the order they run.
    """

    facts: Facts
    share_inputs: bool
    ends: Sequence[tuple[BlockConfig, Sequence[BlockConfig]]]
    stacks: dict[str, Sequence[Place]]


@lru_cache(maxsize=4096)
def plan(arch: Architecture) -> tuple[Step, ...]:
    """The units of an architecture in the order they run."""
    stacks: dict[str, Sequence[Place]] = {
        name: [Place(role, slot, i, (block,)) for i, layer in enumerate(layers) for role, block, slot in layer.parts()]
        for name, layers in arch.stacks.items()}
    ends = ((arch.embedding, (arch.head,)),)
    return tuple(walk(Outline(arch.facts(causal=False), arch.share_inputs, ends, stacks)))


def walk(outline: Outline) -> Iterator[Step]:
    """The units of an outline in execution order; alternatives of a position follow each other."""
    for stack, places in outline.stacks.items():
        path = "target_embedding" if stack == "decoder" and not outline.share_inputs else "embedding"
        for embedding, _ in outline.ends:
            yield Step(path, make_unit("embedding", embedding, outline.facts), stack)
        facts = replace(outline.facts, causal=stack == "decoder")
        yield from _layer_steps(stack, places, facts)
        if residuals.get(facts.residual).closing_norm(facts):
            unit = Unit("norm", BlockConfig(facts.norm), facts.pick(("width", "norm_eps")))
            yield Step(f"{stack}.norm", unit, stack)
    for embedding, heads in outline.ends:
        known = head_facts(outline.facts, embedding)
        yield from (Step("head", make_unit("head", head, known), stack) for head in heads)


def _layer_steps(stack: str, places: Sequence[Place], facts: Facts) -> Iterator[Step]:
    fractions: Sequence[float] = (1.0,)
    restores: list[list[Step]] = []
    later, reuse = replace(facts, first=False), _Reuse(places)
    for place in places:
        pairs = product(place.blocks, fractions if place.length_fractions is None else place.length_fractions)
        path = f"{stack}.{place.slot}.{place.role}"
        if place.role != "between":
            for block, fraction in pairs:
                for first in reuse.first_values(place, block):
                    unit = make_unit(place.role, block, facts if first else later, fraction)
                    yield Step(path, unit, stack, place.layer)
            reuse.add(place)
            continue
        remaining = dict.fromkeys(fractions if place.optional else ())
        restores.append([])
        for block, fraction in pairs:
            if block.kind != SKIP:
                yield Step(path, make_unit("between", block, facts, fraction), stack, place.layer)
            remains, restore = length_after(block, facts, fraction)
            remaining[remains] = None
            reuse.clear_if_shortened(place, block)
            restores[-1] += [Step(f"{stack}.{place.slot}.restore", restore, stack)] if restore else []
        fractions = tuple(remaining)
    yield from chain.from_iterable(reversed(restores))


class _Reuse:
    """Which layers of a stack compute a result, such as keys and values, and which reuse it (`Kind.shares`).

    In an architecture, the first layer with the name of a result computes it. Layers with the same slot are the same
    unit, so all of them compute, or all reuse. After a block that changes the length, layers compute the result again,
    and so do all layers of a slot that runs at several lengths.
    """

    def __init__(self, places: Iterable[Place]) -> None:
        self.computed: set[str] = set()
        self.computes: dict[tuple[str, int], bool] = {}
        lengths, ran = 0, dict[tuple[str, int], int]()
        for place in places:
            lengths += place.role == "between"
            if ran.setdefault((place.role, place.slot), lengths) != lengths:
                self.computes[place.role, place.slot] = True

    def first_values(self, place: Place, block: BlockConfig) -> tuple[bool, ...]:
        """The possible values of the fact `first`."""
        name = _shared_name(block)
        if name is None:
            return (True,)
        if place.optional:  # a space: an earlier layer may be of another kind
            return (True, False) if name in self.computed else (True,)
        return (self.computes.setdefault((place.role, place.slot), name not in self.computed),)

    def add(self, place: Place) -> None:
        """Remember the results that a place may compute."""
        self.computed |= {name for name in map(_shared_name, place.blocks) if name is not None}

    def clear_if_shortened(self, place: Place, block: BlockConfig) -> None:
        """Forget results of another length."""
        if not place.optional and kinds.get(block.kind).length is not None:
            self.computed.clear()


def _shared_name(block: BlockConfig) -> str | None:
    shares = kinds.get(block.kind).shares
    return None if shares is None else shares(block.filled())


def shared_layers(arch: Architecture) -> frozenset[tuple[str, int]]:
    """(stack, layer) of the layers whose results later layers reuse."""
    reused, computed_by = set(), dict[tuple[str, str, str], int]()
    for step in plan(arch):
        name = _shared_name(step.unit.block) if step.role in SUBLAYERS else None
        if name is not None and dict(step.unit.facts)["first"]:
            computed_by[step.stack, step.role, name] = step.layer
        elif name is not None:
            reused.add((step.stack, computed_by[step.stack, step.role, name]))
    return frozenset(reused)


def length_after(block: BlockConfig, facts: Facts, fraction: float) -> tuple[float, Unit | None]:
    """The length fraction after a block between layers, and the unit that restores the length at the stack's end."""
    kind = kinds.get(block.kind)
    remains = fraction * kind.length(block.filled()) if kind.length else fraction
    restore = BlockConfig(kind.restored_by, block.dims) if kind.restored_by else None
    return remains, make_unit("restore", restore, facts, remains) if restore else None


@lru_cache(maxsize=100_000)
def make_unit(role: str, block: BlockConfig, facts: Facts, length_fraction: float = 1.0) -> Unit:
    """The unit of a block among these facts, on that fraction of the tokens."""
    always: tuple[str, ...] = ("width",) if role in LENGTHS else ()
    if role in SUBLAYERS:
        always = residuals.get(facts.residual).unit_facts
    names = dict.fromkeys((*always, *kinds.get(block.kind).facts))
    return Unit(role, block, facts.pick(tuple(names)), length_fraction)
