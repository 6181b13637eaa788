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
"""Set of hypotheses that are still possible -> number of distinct sequences of symbols that lead to it."""
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
        parts: list[tuple[frozenset[Any], frozenset[Any]]] = []  # symbols, and the hypotheses that allow just these
        for alike, group in symbols.items():
            parts = list(_refined(parts, alike, frozenset(group)))
        counts: States = Counter()
        for some, allowing in parts:
            counts[allowing] += len(some)
        return counts

    return _follow(states, split)


def _refined(parts: list[tuple[frozenset[Any], frozenset[Any]]], alike: frozenset[Any],
             group: frozenset[Any]) -> Iterator[tuple[frozenset[Any], frozenset[Any]]]:
    """Parts of symbols, split by whether they are among those that a group of hypotheses allows."""
    for some, allowing in parts:
        if both := some & alike:
            yield both, allowing | group
        if others := some - alike:
            yield others, allowing
        alike -= some
    if alike:
        yield alike, group


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
        parts = [part for layer in stack.layer_types.values() for part in layer.values()]
        self.has_between = any("between" in layer for layer in stack.layer_types.values())
        self.uniform = len(stack.layer_type.values) == 1 and all(part.uniform for part in parts)
        self.blocks: dict[Any, frozenset[Any]] = {}
        self.memo: dict[tuple[Shape, int, frozenset[Any]], States] = {}

    def readings(self, every_scaling: frozenset[Any]) -> States:
        """For a set of scalings: how many layer sequences leave which of them possible."""
        groups: dict[Any, set[Any]] = defaultdict(set)
        for scaling in every_scaling:
            for slots, shape in self._patterns(scaling):
                groups[slots, shape].add(scaling)
        result: States = Counter()
        for (_, shape), possible in groups.items():
            depth = len(shape) if possible != {None} else 0  # without scaling, a layer is the same at any depth
            states = self._count(shape, depth, frozenset(itertools.product(possible, self.globals)))
            result += _map(states, lambda hypothesis: [hypothesis[0]])
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

    def _count(self, shape: Shape, depth: int, hypotheses: frozenset[Any]) -> States:
        """The states after the layers of a shape; shapes that begin alike share the work."""
        done = len(shape)
        while done and (shape[:done], depth, hypotheses) not in self.memo:
            done -= 1
        states = self.memo[shape[:done], depth, hypotheses] if done else Counter({hypotheses: 1})
        for position in range(done, len(shape)):
            states = self._layer(states, position, depth, *shape[position])
            self.memo[shape[:position + 1], depth, hypotheses] = states
        return states

    def _layer(self, states: States, position: int, depth: int, slot: int | None, roles: tuple[str, ...]) -> States:
        if not roles:
            return states
        states = _map(states, partial(self._layer_types, slot))
        for role in roles:
            states = _read(states, partial(self._blocks, role, slot, position, depth))
        return _map(states, lambda hypothesis: [hypothesis[:2]])

    def _layer_types(self, slot: int | None, hypothesis: Any) -> list[Any]:
        return [(*hypothesis, name) for name in self.stack.layer_type.choices(slot, dict(hypothesis[1]))]

    def _blocks(self, role: str, slot: int | None, position: int, depth: int, hypothesis: Any) -> Any:
        scaling, fixed, layer_type = hypothesis
        part = self.stack.layer_types[layer_type].get(role)
        if part is None:
            return (None,)
        key = layer_type, role, slot, fixed, scaling and (scaling, position, depth)
        if key not in self.blocks:
            blocks = alternatives(part, slot, self.facts, scaled_at(scaling, position, depth), fixed)
            self.blocks[key] = frozenset(None if block.kind == SKIP else block for block in blocks)
        return self.blocks[key]


def _map(states: States, change: Callable[[Any], Any]) -> States:
    """Rewrite the hypotheses of every state; equal states are added up."""
    result: States = Counter()
    for hypotheses, readings in states.items():
        result[frozenset(new for old in hypotheses for new in change(old))] += readings
    return result
