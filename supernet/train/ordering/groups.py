"""Which axes of which stored tensors can be permuted together without changing a model's outputs.

Nothing is listed by kind. A dim of a unit is changed, the unit is built again without storage, and the axes that
changed with it belong together, if a permutation of all of them leaves the unit's outputs as they are. So rotary
positions, sinusoids, convolutions and channels that are split between branches exclude themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, islice
from typing import NamedTuple

import torch
from torch import Tensor

from search_spaces import registry as kinds
from search_spaces.architecture import Architecture
from search_spaces.block import BlockConfig
from search_spaces.errors import InputError
from search_spaces.kind import Facts, Value
from search_spaces.units import Step, Unit, plan
from supernet.store import unit_entries
from supernet.train.ordering.bench import UnitAxis, UnitBench

MOST_SUBSETS = 2000
"""Maximum number of sets of axes to try for a unit whose channels do not all follow those of the model."""

WIDTH = "width"
"""The group of the hidden states' channels, through the whole model."""
STEPS = (1, 2, 4, 8, 16, 32, 64)
"""Changes of a dim to try, besides factors of 2 and 3, until the rules of its kind allow the value."""


class TensorAxis(NamedTuple):
    """An axis of a plain model's tensor, in the finer shape the store keeps.

    Args:
        step: the unit that has the tensor, and its path.
        tensor: its name in the unit's module.
        piece: which of the tensor's stored pieces it is.
        block: consecutive entries that are one item of the group.
        span: how many axes, from this one on, are taken as one.
    """

    step: Step
    tensor: str
    piece: int
    axis: int
    block: int = 1
    span: int = 1


@dataclass(frozen=True)
class AxisGroup:
    """Axes whose items can be permuted, all of them alike.

    Args:
        name: the path of the unit and the dim, or `width`.
        size: how many items there are.
        within: items stay in their own of so many consecutive parts: query heads with their key/value head.
    """

    name: str
    size: int
    axes: tuple[TensorAxis, ...]
    within: int = 1


@dataclass(frozen=True)
class PermutationGroups:
    """What can be permuted in an architecture, and what cannot: the name of each dim with the reason."""

    groups: tuple[AxisGroup, ...]
    left_alone: dict[str, str]


def find_groups(arch: Architecture) -> PermutationGroups:
    """The permutation groups of an architecture's tensors in the store."""
    groups: list[AxisGroup] = []
    left: dict[str, str] = {}
    width: list[TensorAxis] = []
    facts = arch.head_facts()
    for steps in _clusters(plan(arch)):
        units = tuple(step.unit for step in steps)
        for group in _inner_groups(units, facts):
            name = f"{steps[0].path} {group.name}"
            if group.axes:
                groups.append(AxisGroup(name, group.size, _of_steps(steps, group.axes), group.within))
            else:
                left[name] = f"{units[0].block.kind} computes a different result if these channels are permuted"
        axes = _width_axes(units, facts) if WIDTH not in left else ()
        if axes is None:
            left[WIDTH] = f"{units[0].block.kind} ({steps[0].path}) has channels that cannot be reordered"
        else:
            width += _of_steps(steps, axes)
    if WIDTH not in left:
        groups.append(AxisGroup(WIDTH, arch.width, tuple(dict.fromkeys(width))))
    return PermutationGroups(tuple(groups), left)


def _clusters(steps: Iterable[Step]) -> Iterator[tuple[Step, ...]]:
    """Steps to be tested together: a head that ties with its embedding, and everything else alone; each path once."""
    unique = {step.path: step for step in steps}
    tying = [step for step in unique.values() if step.ties]
    embedding = [step for step in unique.values() if step.role == "embedding"][-1]
    for step in unique.values():
        if step not in tying:
            yield (step, *tying) if step is embedding else (step,)


def _of_steps(steps: Sequence[Step], axes: Iterable[UnitAxis]) -> tuple[TensorAxis, ...]:
    pieces = {(i, piece.name): (step, entry.name, k) for i, step in enumerate(steps)
              for entry in unit_entries(step.unit) for k, piece in enumerate(entry.pieces)}
    return tuple(TensorAxis(*pieces[unit, piece], *where) for unit, piece, *where in axes)


class _Found(NamedTuple):
    """Axes of units that belong to a dim; no axes where no permutation is valid."""

    name: str
    size: int
    axes: tuple[UnitAxis, ...]
    within: int = 1


@lru_cache(maxsize=4096)
def _inner_groups(units: tuple[Unit, ...], facts: Facts) -> tuple[_Found, ...]:
    """The groups of the dims of units, which do not show outside."""
    sets = {name: axes for name in _dims(units[0]) if (axes := _changed(units, {name}, facts))}
    sizes = {name: int(dict(units[0].block.dims)[name]) for name in sets}
    open_dims = [name for name, size in sizes.items() if size > 1]
    bench = UnitBench(units) if open_dims else None
    groups, done = [], set[str]()
    for name in open_dims:
        if name in done or bench is None:
            continue
        group = _one_group(bench, name, sets, sizes)
        done |= set(group.name.split(" and "))
        groups.append(group)
    return tuple(sorted(groups, key=lambda group: -group.within))  # blocks move after what is inside them


def _one_group(bench: UnitBench, name: str, sets: dict[str, tuple[UnitAxis, ...]], sizes: dict[str, int]) -> _Found:
    """The group of a dim: alone, with a dim of the same size, inside the items of another, or around them."""
    size, mine = sizes[name], sets[name]
    others = [other for other in sets if other != name]
    for other in others:  # each item of another dim may have its own order, where the axes follow each other
        inside = tuple(axis._replace(axis=axis.axis - 1, span=2) for axis in mine)
        if all(axis._replace(span=1) in sets[other] for axis in inside) and _all_keep(
                bench, inside, orders(sizes[other] * size, sizes[other])):
            return _Found(name, sizes[other] * size, inside, sizes[other])
    for axes in dict.fromkeys((mine, tuple(axis for axis in mine if axis.block == 1))):
        if axes and _all_keep(bench, axes, orders(size)):
            return _Found(name, size, axes)
    for other in others:
        if sizes[other] == size and _all_keep(bench, both := (*mine, *sets[other]), orders(size)):
            return _Found(f"{name} and {other}", size, both)
    for other in others:
        parts = sizes[other]
        if 1 < parts < size and size % parts == 0 and _all_keep(bench, mine, orders(size, parts)):
            return _Found(name, size, mine, parts)
        if size < parts and parts % size == 0:
            wide = (axis._replace(block=axis.block * parts // size) for axis in sets[other])
            if _all_keep(bench, both := (*mine, *wide), orders(size)):
                return _Found(name, size, both)
    return _Found(name, size, ())


@lru_cache(maxsize=4096)
def _width_axes(units: tuple[Unit, ...], facts: Facts) -> tuple[UnitAxis, ...] | None:
    """The axes that follow the channels of the hidden states; None if these cannot be permuted."""
    bench, width = UnitBench(units), bench_width(units)
    for names in ({"width"}, {"width", *_equal_to(units, width)}):
        candidates = _changed(units, names, facts)
        if candidates is None:
            continue
        for axes in islice(_subsets(candidates), MOST_SUBSETS):
            if all(bench.keeps(axes, order, order) for order in orders(width)):
                return axes
    return None


def bench_width(units: Sequence[Unit]) -> int:
    """The model's width, as units know it."""
    return next(int(value) for unit in units for name, value in unit.facts if name == "width")


def orders(size: int, within: int = 1) -> Iterator[Tensor]:
    """Two orders to test: neighbours in a circle, then a random one; each inside its part where there are several."""
    noise, length = torch.Generator().manual_seed(size), size // within
    starts = torch.arange(within) * length
    yield torch.cat([start + torch.arange(length).roll(1 + i % max(length - 1, 1)) for i, start in enumerate(starts)])
    yield torch.cat([start + torch.randperm(length, generator=noise) for start in starts])


def _all_keep(bench: UnitBench, axes: Sequence[UnitAxis], tested: Iterable[Tensor]) -> bool:
    return all(bench.keeps(axes, order) for order in tested)


def _subsets(axes: tuple[UnitAxis, ...]) -> Iterator[tuple[UnitAxis, ...]]:
    """All of them first, then all but one, and so on."""
    for n in range(len(axes), -1, -1):
        yield from combinations(axes, n)


def _dims(unit: Unit) -> list[str]:
    """The dims that count something."""
    if unit.role == "norm":
        return []
    whole = {dim.name for dim in kinds.get(unit.block.kind).dims if dim.type is int}
    return [name for name, _ in unit.block.dims if name in whole]


def _equal_to(units: Sequence[Unit], value: int) -> set[str]:
    """The dims and facts of units that have a value."""
    return {name for unit in units for name in (*_dims(unit), "rank")
            if {**dict(unit.facts), **dict(unit.block.dims)}.get(name) == value}


def _changed(units: Sequence[Unit], names: set[str], facts: Facts) -> tuple[UnitAxis, ...] | None:
    """The axes that have as many entries as dims (or facts) say, or a multiple of it; None if they cannot change."""
    known: dict[str, Value] = {}
    for unit in reversed(units):
        known |= {**dict(unit.facts), **dict(unit.block.dims)}
    old = int(known[min(names, key=lambda name: name != "width")])
    for new in dict.fromkeys((2 * old, old // 2, 3 * old, *(old + sign * step for step in STEPS for sign in (-1, 1)))):
        others = [_varied(unit, names, new, facts) for unit in units] if new > 0 else [None]
        if all(other is not None for other in others):
            axes = [_grown(i, unit, other, old, new) for i, (unit, other) in enumerate(zip(units, others)) if other]
            if all(unit_axes is not None for unit_axes in axes):
                return tuple(axis for unit_axes in axes for axis in unit_axes or ())
    return None


def _varied(unit: Unit, names: set[str], value: int, known: Facts) -> Unit | None:
    """The unit with another value of dims and facts; None if its kind does not allow that."""
    facts = tuple((name, value if name in names else old) for name, old in unit.facts)
    if unit.role == "norm":
        return replace(unit, facts=facts)
    dims = {name: value if name in names and name in _dims(unit) else old for name, old in unit.block.dims}
    if kinds.get(unit.block.kind).faults(dims, {**known.as_dict(), **dict(facts)}):
        return None
    return replace(unit, facts=facts, block=BlockConfig.of(unit.block.kind, dims))


def _grown(i: int, unit: Unit, other: Unit, old: int, new: int) -> tuple[UnitAxis, ...] | None:
    """The axes of a unit that differ in another one by as much as a dim; None if the two have other tensors."""
    try:
        before, after = (
            {piece.name: piece.shape for entry in unit_entries(variant) for piece in entry.pieces}
            for variant in (unit, other))
    except (InputError, ValueError):
        return None
    if before.keys() != after.keys():
        return None
    return tuple(UnitAxis(i, name, axis, have // old) for name, shape in before.items()
                 for axis, (have, other_have) in enumerate(zip(shape, after[name]))
                 if have != other_have and have % old == 0 and have // old * new == other_have)
