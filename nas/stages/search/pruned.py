"""Simple smaller versions of the largest architecture, as the first trials of a search.

They correspond to `nas prune-to`, within the values of the space: fewer layers, all sizes smaller by one factor, and
without the least important channels and heads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch

from nas.core.evaluation import load_supernet
from nas.core.measures import Measure
from nas.stages.search.setup import SearchSetup
from search_spaces import Architecture, SearchSpace
from search_spaces.space.layers import every_other
from search_spaces.units import plan
from supernet import extract
from supernet.train.opening import importance_batches
from supernet.train.ordering.groups import WIDTH, find_groups
from supernet.train.ordering.scores import score_groups

SHARES = (1.0, 0.5, 0.25, 0.125)
"""Shares of the budget that limit the versions of each method."""
FACTORS = 64
"""Number of factors to try for shrinking all sizes."""
Genes = Mapping[str, Any]
Scores = Mapping[tuple[str, str], Sequence[float]]
"""(path, dim) -> the importance of its items, in the order of the weights."""


def pruned_starts(setup: SearchSetup) -> list[Architecture]:
    """For each method, the largest version within each share of the budget.

    The budget is the first upper limit on a cost; without one, the first cost of the largest architecture.
    """
    budget = _budget(setup)
    if budget is None:
        return []
    space, (measure, most) = setup.space, budget
    methods = [list(archs) for archs in (fewer_layers(space), uniform(space), by_importance(space, _scores(setup)))]
    starts: dict[str, Architecture] = {}
    for share in SHARES:
        for archs in methods:
            fitting = (arch for arch in archs if setup.costs(arch)[measure.name] <= share * most
                       and setup.within_limits(arch))
            if (arch := next(fitting, None)) is not None:
                starts[arch.key] = arch
    return list(starts.values())


def _budget(setup: SearchSetup) -> tuple[Measure, float] | None:
    limits = [limit for limit in setup.limits if not limit.at_least and not limit.measure.is_quality]
    if limits:
        return limits[0].measure, limits[0].value
    costs = [measure for measure in setup.cost_objectives if not measure.maximise]
    return (costs[0], setup.costs(setup.space.largest())[costs[0].name]) if costs else None


def _decoded(space: SearchSpace, several: Iterator[Genes]) -> Iterator[Architecture]:
    """Each architecture once."""
    archs = (space.decode(genes) for genes in several)
    yield from {arch.key: arch for arch in archs}.values()


def fewer_layers(space: SearchSpace) -> Iterator[Architecture]:
    """One layer fewer at a time, evenly spread; stacks shrink in proportion."""
    whole = space.encode(space.largest())
    most = max(stack.slots for stack in space.stacks.values())

    def genes(n: int) -> Iterator[tuple[str, Any]]:
        for name, stack in space.stacks.items():
            n_kept = max(round(n * stack.slots / most), stack.at_least if stack.keep == "searched" else 1)
            kept = every_other(stack.slots, n_kept)
            yield from ((gene, i in kept) for i in range(stack.slots) if (gene := f"{name}.{i}.keep") in whole)
            if n_kept in space.genes.get(f"{name}.depth", ()):
                yield f"{name}.depth", n_kept

    yield from _decoded(space, ({**whole, **dict(genes(n))} for n in range(most, 0, -1)))


def _sizes(space: SearchSpace, whole: Genes) -> dict[str, list[int]]:
    """The genes that are sizes of the largest architecture, with their values from its own down."""
    counts = {name: [value for value in values if type(value) is int] for name, values in space.genes.items()}
    sizes = {name: sorted((value for value in values if value <= whole[name]), reverse=True)
             for name, values in counts.items()
             if len(values) == len(space.genes[name]) and not name.endswith(".depth")}
    return {name: values for name, values in sizes.items() if len(values) > 1}


def uniform(space: SearchSpace) -> Iterator[Architecture]:
    """Every size times the same factor, rounded to the values of the space."""
    whole = space.encode(space.largest())
    sizes = _sizes(space, whole)

    def nearest(values: list[int], factor: float) -> int:
        return min(values, key=lambda value: abs(value - factor * values[0]))

    yield from _decoded(space, ({**whole, **{name: nearest(values, k / FACTORS) for name, values in sizes.items()}}
                                for k in range(FACTORS, 0, -1)))


def by_importance(space: SearchSpace, scores: Scores) -> Iterator[Architecture]:
    """Without the least important part of any size, then without the second, and so on."""
    genes = space.encode(space.largest())
    parts: list[tuple[float, str, int]] = []
    for name, values in _sizes(space, genes).items():
        kept = [_kept(space.decode({**genes, name: value}), scores) for value in values]
        lost = [_mean_between(less, more, scores) for more, less in zip(kept, kept[1:])]
        if all(map(math.isfinite, lost)):
            parts += [(score, name, value) for score, value in zip(accumulate(lost, max), values[1:])]
    path = [dict(genes)]
    for _, name, value in sorted(parts, key=lambda part: part[0]):  # a stable sort: parts of one size stay in order
        path.append({**path[-1], name: value})
    yield from _decoded(space, iter(path))


def _kept(arch: Architecture, scores: Scores) -> dict[tuple[str, str], int]:
    """How many scored items an architecture has, by path and dim."""
    dims = {step.path: step.unit.block.filled() for step in plan(arch) if step.role != "norm"}
    return {(path, dim): int(dims.get(path, {}).get(dim, 0)) for path, dim in scores}


def _mean_between(less: Mapping[tuple[str, str], int], more: Mapping[tuple[str, str], int],
                  scores: Scores) -> float:
    """The mean importance of the items that only the larger one has; nan if it is unknown."""
    lost = [value for place, values in scores.items() for value in values[less[place]:more[place]]]
    return sum(lost) / len(lost) if lost else math.nan


def _scores(setup: SearchSetup) -> Scores:
    """First-order importance in the trained supernet's largest architecture: it is comparable between layers."""
    recipe = setup.run.config().training
    model = extract(load_supernet(setup.run, setup.space), setup.space.largest()).eval()
    groups = [group for group in find_groups(model.arch).groups if group.name != WIDTH and group.within == 1]
    batches = importance_batches(setup.prepared.train, recipe, next(model.parameters()).device)
    with torch.enable_grad():
        scores = score_groups(model, groups, batches, "taylor")
    named = ((*group.name.partition(" ")[::2], scores[group.name].tolist()) for group in groups)
    return {(path, dims.split(" and ")[0]): values for path, dims, values in named}
