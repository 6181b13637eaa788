"""The parts of a space: genes (named lists of values) and the positions that read them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from search_spaces.kind import Value
from search_spaces.space.layers import Scaling, every_other

NONE_FIXED: Mapping[str, Value] = MappingProxyType({})


@dataclass(frozen=True)
class Gene:
    """A list of values to choose from: one for all, or one per slot of a stack.

    Args:
        name: its name in a genotype; `{slot}` in it marks a gene that every slot has separately.
        values: the lists; a single one holds for every slot.
    """

    name: str
    values: tuple[tuple[Value, ...], ...]

    @property
    def per_slot(self) -> bool:
        """Whether every slot has this gene separately."""
        return "{slot}" in self.name

    def key(self, slot: int | None = None) -> str:
        """Its name in a genotype."""
        return self.name.replace("{slot}", str(slot))

    def choices(self, slot: int | None = None, fixed: Mapping[str, Value] = NONE_FIXED) -> tuple[Value, ...]:
        """The values to choose from at a slot: only the fixed one, if its name has a fixed value."""
        if self.name in fixed:
            return (fixed[self.name],)
        return self.values[0] if len(self.values) == 1 else self.values[slot or 0]


@dataclass(frozen=True, eq=False)
class PartSpace:
    """The alternatives for one part (embedding, mixer, cross, ffn, head) of one layer type."""

    role: str
    kind: Gene
    dims: Mapping[str, Mapping[str, Gene]]
    """Kind -> dim -> gene."""

    @cached_property
    def uniform(self) -> bool:
        """Whether every slot has the same alternatives."""
        return all(len(gene.values) == 1 for gene in self.genes())

    def genes(self) -> Iterator[Gene]:
        """The gene of the kind, then those of every kind's dims."""
        yield self.kind
        for dims in self.dims.values():
            yield from dims.values()


@dataclass(frozen=True, eq=False)
class StackSpace:
    """The alternatives for one stack of layers.

    Args:
        keep: `all`, `first`, `every_other` or `searched`.
        depth: how many slots are kept under `first` and `every_other`; None means as many as
            block-wise scaling has blocks.
        kept: under `searched`, the gene that says for each slot whether it is kept.
        at_least: the least depth under `searched`; slots are restored from the front.
    """

    name: str
    slots: int
    keep: str
    depth: Gene | None
    kept: Gene
    at_least: int
    sharing: Gene
    layer_type: Gene
    layer_types: Mapping[str, Mapping[str, PartSpace]]
    """Layer type -> role -> alternatives."""

    def fixed_slots(self, depth: int) -> tuple[int, ...]:
        """The slots that a stack of that depth keeps, where the rule leaves no choice."""
        return every_other(self.slots, depth) if self.keep == "every_other" else tuple(range(depth))

    def kept_sets(self, scaling: Scaling | None) -> Iterator[tuple[int, ...]]:
        """Every set of slots that can be kept."""
        if self.keep == "searched":
            for depth in range(self.at_least, self.slots + 1):
                yield from itertools.combinations(range(self.slots), depth)
        elif self.depth is None and scaling is not None:
            yield self.fixed_slots(scaling.n_max)
        elif self.depth is not None:
            yield from (self.fixed_slots(int(depth)) for depth in self.depth.choices())

    def genes(self) -> Iterator[Gene]:
        """Every gene, those of the whole stack first."""
        if self.keep == "searched":
            yield self.kept
        elif self.depth is not None:
            yield self.depth
        yield self.sharing
        yield self.layer_type
        for parts in self.layer_types.values():
            for part in parts.values():
                yield from part.genes()


@dataclass(frozen=True, eq=False)
class ScalingSpace:
    """The alternatives for block-wise scaling."""

    depths: Gene
    multiplier: Gene
    order: Gene

    def genes(self) -> Iterator[Gene]:
        """The three genes."""
        yield from (self.depths, self.multiplier, self.order)

    def build(self, chosen: Mapping[str, Value]) -> Scaling:
        """The scaling of a choice, by gene name."""
        n_min, n_max = Scaling.parse_depths(chosen[self.depths.name])
        return Scaling(n_min, n_max, float(chosen[self.multiplier.name]), chosen[self.order.name] == "descending")


def assignments(genes: Iterable[Gene]) -> Iterator[dict[str, Value]]:
    """Every choice of values for genes that have no slot."""
    listed = list(genes)
    for values in itertools.product(*(gene.choices() for gene in listed)):
        yield {gene.name: value for gene, value in zip(listed, values)}
