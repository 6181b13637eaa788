"""The exact number of distinct architectures of a space, without listing them.

Different genotypes may give one architecture: a shared layer hides the choices of its followers,
a ratio of 1 hides the kernel, two scalings agree on a short stack. What differs between genotypes
but not in the result is kept as a set of *hypotheses* (scaling, stack-wide choices) that are still
possible after the parts seen so far. Reading an architecture part by part and splitting that set by
what each part rules out visits every distinct architecture exactly once (a subset construction).
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from search_spaces.block import head_facts
from search_spaces.kind import SKIP, Facts
from search_spaces.space.choices import STACK_ROLES, alternatives, first_block, scaled_at, scalings, stack_assignments
from search_spaces.space.dimensions import StackSpace
from search_spaces.space.layers import Scaling, Sharing

if TYPE_CHECKING:
    from search_spaces.space.search_space import SearchSpace

States = Counter[frozenset[Any]]
"""Set of hypotheses still possible -> number of distinct readings that lead to it."""
Shape = tuple[tuple[int | None, tuple[str, ...]], ...]
"""Per layer: the slot whose lists it reads (None if all slots are alike) and the roles it owns."""


def count_architectures(space: SearchSpace) -> int:
    """Number of distinct architectures of the space."""
    total = 0
    every_scaling = frozenset(scaling for _, scaling in scalings(space))
    for settings in space.every_settings():
        states: States = Counter({every_scaling: 1})
        facts = space.facts(settings, False)

        def ends(scaling: Scaling | None, facts: Facts = facts) -> set[Any]:
            extra = first_block(scaling)
            return {(embedding, head) for embedding in alternatives(space.embedding, None, facts, extra, ())
                    for head in alternatives(space.head, None, head_facts(facts, embedding), extra, ())}

        states = _read(states, ends)
        for name, stack in space.stacks.items():
            counter = _StackCounter(stack, space.facts(settings, name == "decoder"))
            states = _follow(states, counter.readings)
        total += sum(states.values())
    return total


def _read(states: States, possible: Callable[[Any], Any]) -> States:
    """Read one symbol: split every set of hypotheses by which of them allow it."""

    def split(hypotheses: frozenset[Any]) -> States:
        symbols = defaultdict(set)
        for hypothesis in hypotheses:
            symbols[frozenset(possible(hypothesis))].add(hypothesis)
        if len(symbols) == 1:  # all of them allow the same
            (alike,) = symbols
            return Counter({hypotheses: len(alike)} if alike else {})
        allowing: defaultdict[Any, set[Any]] = defaultdict(set)
        for alike, group in symbols.items():
            for symbol in alike:
                allowing[symbol] |= group
        return Counter(frozenset(group) for group in allowing.values())

    return _follow(states, split)


def _follow(states: States, step: Callable[[frozenset[Any]], States]) -> States:
    result: States = Counter()
    for hypotheses, readings in states.items():
        for rest, more in step(hypotheses).items():
            result[rest] += readings * more
    return result


class _StackCounter:
    """Counts the distinct layer sequences of one stack, for given settings."""

    def __init__(self, stack: StackSpace, facts: Facts) -> None:
        self.stack, self.facts = stack, facts
        self.globals = [tuple(fixed.items()) for fixed in stack_assignments(stack)]
        parts = [part for layer in stack.layers.values() for part in layer.values()]
        self.has_between = any("between" in layer for layer in stack.layers.values())
        self.uniform = len(stack.family.values) == 1 and all(part.uniform for part in parts)
        self.memo: dict[tuple[Shape, frozenset[Any]], States] = {}

    def readings(self, every_scaling: frozenset[Any]) -> States:
        """For a set of scalings: how many layer sequences leave which of them possible."""
        groups: dict[Any, set[Any]] = defaultdict(set)
        for scaling in every_scaling:
            for slots, shape in self._patterns(scaling):
                groups[slots, shape].add(scaling)
        result: States = Counter()
        for (_, shape), possible in groups.items():
            hypotheses = frozenset(itertools.product(possible, self.globals))
            if (shape, hypotheses) not in self.memo:
                self.memo[shape, hypotheses] = self._count(shape, hypotheses)
            result += self.memo[shape, hypotheses]
        return result

    def _patterns(self, scaling: Scaling | None) -> Iterator[tuple[Any, Shape]]:
        """The distinct (slots used, shape) a stack can have."""
        seen = set()
        for text in self.stack.sharing.choices():
            sharing = Sharing.parse(text)
            for kept in self.stack.kept_sets(scaling):
                leaders = [(sharing.leader("mixer", i), sharing.leader("ffn", i)) for i in range(len(kept))]
                slots = tuple((kept[mixer], kept[ffn]) for mixer, ffn in leaders)
                if slots not in seen:
                    seen.add(slots)
                    yield slots, tuple(self._layer_shape(kept[i], mixer == i, ffn == i)
                                       for i, (mixer, ffn) in enumerate(leaders))

    def _layer_shape(self, slot: int, owns_mixer: bool, owns_ffn: bool) -> tuple[int | None, tuple[str, ...]]:
        owned = [*(["mixer"] if owns_mixer else []), *(["ffn"] if owns_ffn else []),
                 *(["between"] if self.has_between else [])]
        roles = tuple(role for part in owned for role in STACK_ROLES[part])
        return (None if self.uniform or not roles else slot), roles

    def _count(self, shape: Shape, hypotheses: frozenset[Any]) -> States:
        states: States = Counter({hypotheses: 1})
        for position, (slot, roles) in enumerate(shape):
            if not roles:
                continue
            states = _map(states, partial(self._families, slot))
            for role in roles:
                states = _read(states, partial(self._blocks, role, slot, position, len(shape)))
            states = _map(states, lambda hypothesis: [hypothesis[:2]])
        return _map(states, lambda hypothesis: [hypothesis[0]])

    def _families(self, slot: int | None, hypothesis: Any) -> list[Any]:
        gene = self.stack.family
        fixed = dict(hypothesis[1])
        families = (fixed[gene.name],) if gene.name in fixed else gene.choices(slot)
        return [(*hypothesis, family) for family in families]

    def _blocks(self, role: str, slot: int | None, position: int, depth: int, hypothesis: Any) -> Any:
        scaling, fixed, family = hypothesis
        part = self.stack.layers[family].get(role)
        if part is None:
            return (None,)
        found = alternatives(part, slot, self.facts, scaled_at(scaling, position, depth), fixed)
        return found if role != "between" else {None if block.kind == SKIP else block for block in found}


def _map(states: States, change: Callable[[Any], Any]) -> States:
    """Rewrite the hypotheses of every state; equal states are added up."""
    result: States = Counter()
    for hypotheses, readings in states.items():
        result[frozenset(new for old in hypotheses for new in change(old))] += readings
    return result
