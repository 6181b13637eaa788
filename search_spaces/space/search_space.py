"""SearchSpace: the architectures a file describes.

A space is a set of *genes*: named lists of values. A genotype picks one value per gene; it is flat
and rectangular, which is what samplers need. Many genotypes may decode to one architecture.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from search_spaces.architecture import Architecture
from search_spaces.errors import InputError
from search_spaces.kind import NORM_EPS, Facts, Value
from search_spaces.residual import PLAIN, canonical_settings
from search_spaces.space import counting, encoding, genotype
from search_spaces.space.dimensions import Gene, PartSpace, ScalingSpace, StackSpace, assignments

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Genotype = Mapping[str, Value]


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """A set of architectures. Made by `load_space`.

    Args:
        settings: genes of the whole architecture: `width`, `norm`, `placement`, `positions`, `bias`,
            `share_inputs`, and `residual` where the space has another than the default.
    """

    name: str
    description: str
    family: str
    vocab_size: int
    context: int
    n_classes: int
    n_types: int
    settings: Mapping[str, Gene]
    embedding: PartSpace
    head: PartSpace
    stacks: Mapping[str, StackSpace]
    scaling: ScalingSpace | None = None
    source: str = field(default="", compare=False)
    norm_eps: float = 0.0

    @cached_property
    def genes(self) -> dict[str, tuple[Value, ...]]:
        """Every gene with a choice, by its name in a genotype."""
        genes: dict[str, tuple[Value, ...]] = {}
        for gene, slots in self._all_genes():
            for slot in slots:
                if len(gene.choices(slot)) > 1:
                    genes[gene.key(slot)] = gene.choices(slot)
        return genes

    def _all_genes(self) -> Iterator[tuple[Gene, list[int | None]]]:
        anywhere: list[int | None] = [None]
        for gene in (*self.settings.values(), *self.embedding.genes(), *self.head.genes()):
            yield gene, anywhere
        if self.scaling:
            for gene in self.scaling.genes():
                yield gene, anywhere
        for stack in self.stacks.values():
            for gene in stack.genes():
                yield gene, list(range(stack.slots)) if gene.per_slot else anywhere

    def facts(self, settings: Mapping[str, Value], causal: bool) -> Facts:
        """What blocks know under a choice of the settings."""
        known = {name: settings[name] for name in ("width", "positions", "norm", "placement", "bias")}
        sides = 2 if self.family == "seq2seq" and settings["share_inputs"] else 1
        known["residual"] = settings.get("residual", PLAIN)
        known["norm_eps"] = self.norm_eps if NORM_EPS.get(str(settings["norm"])) else 0.0
        return Facts(context=self.context, vocab_size=self.vocab_size, n_classes=self.n_classes,
                     n_types=self.n_types, causal=causal, sides=sides, **known)  # type: ignore[arg-type]

    def every_settings(self) -> list[dict[str, Value]]:
        """Every distinct choice of the settings."""
        settings = map(canonical_settings, assignments(self.settings.values()))
        return list({tuple(chosen.items()): chosen for chosen in settings}.values())

    def distributions(self) -> dict[str, BaseDistribution]:
        """The genes as Optuna distributions."""
        from optuna.distributions import CategoricalDistribution

        return {name: CategoricalDistribution(values) for name, values in self.genes.items()}

    def decode(self, genes: Genotype) -> Architecture:
        """The architecture that a genotype encodes. Raises InputError for a wrong or missing gene."""
        return self.read(genes)[0]

    def read(self, genes: Genotype) -> tuple[Architecture, frozenset[str]]:
        """The architecture that a genotype encodes, and the names of the genes that affect it.

        The others, such as those of a dropped layer, may have any value.

        Raises:
            InputError: a gene is wrong or missing.
        """
        return genotype.decode(self, genes)

    def encode(self, arch: Architecture) -> dict[str, Value]:
        """A genotype of the architecture: `decode(encode(arch)) == arch`.

        Raises:
            InputError: the architecture is not in the space; says why.
        """
        return encoding.encode(self, arch)

    def __contains__(self, arch: object) -> bool:
        if not isinstance(arch, Architecture):
            return False
        try:
            self.encode(arch)
        except InputError:
            return False
        return True

    def sample(self, rng: random.Random) -> Architecture:
        """The architecture of a genotype drawn uniformly."""
        return self.decode({name: rng.choice(values) for name, values in self.genes.items()})

    def smallest(self, rng: random.Random | None = None) -> Architecture:
        """Every dimension at its minimum; for kinds and words the first listed, or a random one.

        Not always the cheapest.
        """
        return self.decode(genotype.extreme(self, 0, rng))

    def largest(self, rng: random.Random | None = None) -> Architecture:
        """Every dimension at its maximum; for kinds and words the last listed, or a random one.

        Not always the most expensive.
        """
        return self.decode(genotype.extreme(self, -1, rng))

    def size(self) -> int:
        """The exact number of distinct architectures."""
        return counting.count_architectures(self)
