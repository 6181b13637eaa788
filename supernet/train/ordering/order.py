"""Permute the store of a supernet so that what matters comes first: slices are prefixes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from search_spaces.architecture import Architecture
from supernet.batch import Batch
from supernet.extraction import extract
from supernet.filling import windows
from supernet.store import WeightStore, store_name
from supernet.supernet import Supernet
from supernet.train.ordering.bench import expand, permuted
from supernet.train.ordering.groups import AxisGroup, TensorAxis, find_groups
from supernet.train.ordering.scores import score_groups, score_layers

Apply = Callable[[str, int, int, Tensor], None]
"""Permutes an axis of a stored tensor: its name, the axis, how many axes count as one, and the order of all entries."""


@dataclass(frozen=True)
class OrderReport:
    """What was permuted.

    Args:
        score: by which score.
        orders: group -> which item is now at each place.
        left_alone: dims that no permutation can order, with the reason.
        layers: layer -> how much it changes the stream, `1 - cos(in, out)`; layers keep their places.
    """

    score: str
    orders: Mapping[str, tuple[int, ...]]
    left_alone: Mapping[str, str]
    layers: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {"schema_version": 1, **asdict(self)}


def order(net: Supernet, batches: Iterable[Batch], score: str = "activation", *, arch: Architecture | None = None,
          apply: Apply | None = None) -> OrderReport:
    """Sort the channels, heads and ranks of an architecture by importance, in the store, most important first.

    The outputs of the architecture stay the same, up to rounding. Tensors that it does not read stay as they are:
    order a store before other architectures are trained.

    Args:
        batches: calibration data, on the net's device.
        score: `activation`, the mean magnitude of what reads an item, or `taylor`, the change of the loss without it
            to first order.
        arch: whose function is kept; the space's largest by default.
        apply: permutes a stored tensor, and whatever else belongs to it; by default the tensor alone.

    Raises:
        InputError: there is no such score.
    """
    arch, calibration = arch or net.space.largest(), list(batches)
    groups = find_groups(arch)
    model = extract(net, arch).eval()
    layers = score_layers(model, calibration)
    scores = score_groups(model, groups.groups, calibration, score)
    del model
    orders = {group.name: sorted_order(group, scores[group.name]) for group in groups.groups}
    permute(net, groups.groups, orders, apply or permute_stored(net))
    moved = {name: tuple(permutation.tolist()) for name, permutation in orders.items()}
    return OrderReport(score, moved, groups.left_alone, layers)


def sorted_order(group: AxisGroup, scores: Tensor) -> Tensor:
    """The items by falling score, each within its own part of the group; equal ones keep their order."""
    parts = scores.detach().cpu().view(group.within, -1)
    starts = torch.arange(group.within)[:, None] * parts.shape[1]
    return (parts.argsort(dim=1, descending=True, stable=True) + starts).flatten()


def permute(net: WeightStore, groups: Sequence[AxisGroup], orders: Mapping[str, Tensor], apply: Apply) -> None:
    """Put the items of groups in an order, in the part of each stored tensor that they lie in."""
    for group in groups:
        for axis in group.axes:
            chosen = expand(orders[group.name], axis.block)
            for name, place, window in _stored(net, axis, len(chosen)):
                shape = net.get_stored(name).shape[place : place + axis.span]
                whole = torch.arange(shape.numel())
                mine = whole.view(shape)[window].flatten().clone()
                whole[mine] = mine[chosen]
                apply(name, place, axis.span, whole)


def _stored(net: WeightStore, axis: TensorAxis, size: int) -> Iterator[tuple[str, int, tuple[slice, ...]]]:
    """The stored tensors and axes that an axis belongs to, and the slice of these: its own, and its core's."""
    step = axis.step
    entry = next(entry for entry in net.entries(step.path, step.unit) if entry.name == axis.tensor)
    name, window = windows(net, step, entry)[axis.piece]
    yield name, axis.axis, window[axis.axis : axis.axis + axis.span]
    core = entry.layout.core
    if core is not None and axis.axis == 1:
        yield store_name(step.path, step.unit, core.right), 1 if core.transposed else 0, (slice(0, size),)


def permute_stored(net: WeightStore) -> Apply:
    """Permutes tensors of the store in place."""
    @torch.no_grad()
    def apply(name: str, axis: int, span: int, entries: Tensor) -> None:
        tensor = net.get_stored(name)
        tensor.copy_(permuted(tensor, axis, span, entries))

    return apply
