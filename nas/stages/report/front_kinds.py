"""Which kinds of blocks are on a front, and at which cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nas.core.measures import Measure
from nas.stages.report.shown import FrontKind, Point
from search_spaces.architecture import Architecture
from search_spaces.kind import ROLES


def front_kinds(points: Sequence[Point], front: Sequence[Point], quality: Measure, cost: Measure) -> list[FrontKind]:
    """Every kind of the evaluated architectures, by role; the kinds that most of the front has come first.

    Args:
        points: all architectures, of which `front` are those that are not dominated.
    """
    with_kind: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        for place in dict.fromkeys(_kinds(point.arch)):
            with_kind.setdefault(place, []).append(point)
    chosen = {point.arch.key for point in front}
    rows = [_row(role, kind, members, [point for point in members if point.arch.key in chosen], quality, cost)
            for (role, kind), members in with_kind.items()]
    return sorted(rows, key=lambda row: (ROLES.index(row.role), -row.on_front, row.kind))


def _kinds(arch: Architecture) -> Iterator[tuple[str, str]]:
    yield "embedding", arch.embedding.kind
    yield "head", arch.head.kind
    for layers in arch.stacks.values():
        yield from ((role, block.kind) for layer in layers for role, block, _ in layer.parts())


def _row(role: str, kind: str, points: Sequence[Point], front: Sequence[Point], quality: Measure,
         cost: Measure) -> FrontKind:
    costs, qualities = [point.value(cost) for point in front], [point.value(quality) for point in front]
    best = (max if quality.maximise else min)(qualities, default=None)
    return FrontKind(role, kind, len(front), len(points), min(costs, default=None), max(costs, default=None), best)
