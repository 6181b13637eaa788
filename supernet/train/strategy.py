"""Architectures trained in a step: a pure function of the seed and the step, equal on every worker."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from search_spaces.architecture import Architecture
from search_spaces.errors import InputError
from search_spaces.space.even import draw_even
from search_spaces.space.genotype import extreme
from search_spaces.space.search_space import SearchSpace
from search_spaces.units import shared_layers


def generator(seed: int, *where: object) -> random.Random:
    """A random generator determined by its arguments, such as the step, so that no state has to be saved."""
    return random.Random("/".join(map(str, (seed, *where))))  # noqa: S311


SAMPLES = 400
"""Number of steps sampled to estimate figures of a whole training; shares of 1 % are then known to half a percent."""


class Strategy(Protocol):
    """Chooses the architectures of each step. If there are several, the first is the teacher of the others."""

    @property
    def names(self) -> tuple[str, ...]:
        """Labels of the first ones, for logging their losses."""

    def draw(self, step: int) -> tuple[Architecture, ...]:
        """The architectures of a step; the one that teaches the others is the first."""


@dataclass(frozen=True)
class Fixed:
    """One architecture throughout: plain training."""

    names: ClassVar[tuple[str, ...]] = ("largest",)
    arch: Architecture

    def draw(self, step: int) -> tuple[Architecture, ...]:
        """The architecture."""
        return (self.arch,)


@dataclass(frozen=True)
class Single:
    """One random architecture per step."""

    names: ClassVar[tuple[str, ...]] = ("sample",)
    space: SearchSpace
    seed: int

    def draw(self, step: int) -> tuple[Architecture, ...]:
        """One sample."""
        return (self.space.sample(generator(self.seed, "single", step)),)


@dataclass(frozen=True)
class Sandwich:
    """A largest, a smallest and `n_random` others.

    Block kinds and categorical options have no order, so those of the largest and the smallest are random: each kind
    is trained at its maximum and its minimum.
    """

    names: ClassVar[tuple[str, ...]] = ("largest", "smallest")
    space: SearchSpace
    seed: int
    n_random: int = 2

    def draw(self, step: int) -> tuple[Architecture, ...]:
        """Largest, smallest, samples."""
        rng = generator(self.seed, "sandwich", step)
        ends = (self.space.largest(rng), self.space.smallest(rng))
        return (*ends, *(self.space.sample(rng) for _ in range(self.n_random)))


@dataclass(frozen=True)
class Balanced:
    """A largest and `n_random` others that use the values of every gene equally often.

    No extreme is favoured, so that inherited weights of samples are more comparable; the smallest itself is trained
    less than in a sandwich.
    """

    names: ClassVar[tuple[str, ...]] = ("largest",)
    space: SearchSpace
    seed: int
    n_random: int = 2

    def draw(self, step: int) -> tuple[Architecture, ...]:
        """Largest, samples."""
        rng = generator(self.seed, "balanced", step)
        columns = {name: self._shared_out(values, rng) for name, values in self.space.genes.items()}
        samples = ({name: column[i] for name, column in columns.items()} for i in range(self.n_random))
        return (self.space.largest(rng), *map(self.space.decode, samples))

    def _shared_out(self, values: Sequence[Any], rng: random.Random) -> list[Any]:
        """A value for each sample, each value equally often if possible."""
        rounds = -(-self.n_random // len(values))
        dealt = [value for _ in range(rounds) for value in rng.sample(list(values), len(values))][:self.n_random]
        rng.shuffle(dealt)
        return dealt


@dataclass(frozen=True)
class Turns:
    """One architecture per step, on a batch of its own: a largest, a random, a smallest, a random one, and so on.

    Kinds are drawn evenly (`search_spaces.space.even`). Every update follows one architecture, so gradients
    of different architectures are never averaged, and each pass reads new data.
    """

    PATTERN: ClassVar[tuple[int | None, ...]] = (-1, None, 0, None)
    names: ClassVar[tuple[str, ...]] = ("sample",)
    space: SearchSpace
    seed: int

    def draw(self, step: int) -> tuple[Architecture, ...]:
        """The architecture whose turn it is."""
        end = self.PATTERN[step % len(self.PATTERN)]
        return (self.space.decode(draw_even(self.space, generator(self.seed, "turns", step), end)),)


@dataclass(frozen=True)
class Progressive:
    """The sandwich with dimensions opened one after the other: a closed one stays at its maximum.

    First the dims inside the layers, then how many layers there are and which they share, finally what affects the
    whole model: width, embedding and head. Everything is open after `steps`.
    """

    names: ClassVar[tuple[str, ...]] = ("largest", "smallest")
    space: SearchSpace
    seed: int
    steps: int
    n_random: int = 2

    def draw(self, step: int) -> tuple[Architecture, ...]:
        """Largest, smallest of what is open, samples of what is open."""
        rng = generator(self.seed, "progressive", step)
        stage = 3 if self.steps == 0 else min(3 * step // self.steps, 3)
        top = extreme(self.space, -1, rng)
        small = extreme(self.space, 0, rng)
        drawn = [{name: rng.choice(values) for name, values in self.space.genes.items()} for _ in range(self.n_random)]
        opened = [{name: genes[name] if self.stage_of(name) <= stage else top[name] for name in top}
                  for genes in (small, *drawn)]
        return tuple(dict.fromkeys(map(self.space.decode, (top, *opened))))

    def stage_of(self, gene: str) -> int:
        """1 for a gene inside a layer, 2 for depth and sharing, 3 for the whole model."""
        stack, _, rest = gene.partition(".")
        if stack not in self.space.stacks:
            return 3
        return 2 if rest in ("depth", "sharing") or rest.endswith(".keep") else 1


@dataclass(frozen=True)
class LargestFirst:
    """One architecture alone for some steps, then another strategy."""

    strategy: Strategy
    arch: Architecture
    steps: int

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the strategy that follows."""
        return self.strategy.names

    def draw(self, step: int) -> tuple[Architecture, ...]:
        """The architecture, or what the strategy draws."""
        return (self.arch,) if step < self.steps else self.strategy.draw(step)


STRATEGIES: dict[str, Callable[[SearchSpace, int, int, int], Strategy]] = {
    "sandwich": lambda space, seed, n_random, steps: Sandwich(space, seed, n_random),
    "balanced": lambda space, seed, n_random, steps: Balanced(space, seed, n_random),
    "turns": lambda space, seed, n_random, steps: Turns(space, seed),
    "single": lambda space, seed, n_random, steps: Single(space, seed),
    "largest": lambda space, seed, n_random, steps: Fixed(space.largest()),
    "progressive": lambda space, seed, n_random, steps: Progressive(space, seed, steps // 2, n_random),
}


def make_strategy(name: str, space: SearchSpace, seed: int, n_random: int, steps: int) -> Strategy:
    """A strategy by its name.

    Args:
        n_random: samples besides the extremes of a sandwich, or besides the largest for balanced.
        steps: of the whole training; the progressive strategy has everything open after half of them.
    """
    if name not in STRATEGIES:
        raise InputError("strategy", f"{name!r} is not allowed; allowed: {', '.join(STRATEGIES)}")
    return STRATEGIES[name](space, seed, n_random, steps)


def sampled_steps(steps: int) -> list[int]:
    """A sample of the steps of a training that meets every place of a strategy's pattern equally often."""
    stride = max(steps // SAMPLES, 1)
    return [step + (step // stride) % 4 if stride > 1 else step for step in range(0, steps, stride)]


def drop_layers(arch: Architecture, rate: float, rng: random.Random) -> Architecture:
    """LayerDrop: the architecture with each layer dropped at that rate; every stack keeps at least one,
    and the layers whose keys and values others reuse."""
    if rate == 0:
        return arch
    kept: dict[str, Any] = {}
    needed = shared_layers(arch)
    for name, layers in arch.stacks.items():
        keeps = [rng.random() >= rate or (name, i) in needed for i in range(len(layers))]
        keeps[rng.randrange(len(layers))] |= not any(keeps)
        kept[name] = tuple(layer for layer, keep in zip(layers, keeps) if keep)
    return replace(arch, **kept)
