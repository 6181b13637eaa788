"""Copy a plain model into the store of a supernet: the inverse of extraction."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from search_spaces.units import Step, plan
from supernet.layout import Core, TensorEntry
from supernet.store import WeightStore, store_name
from supernet.transformer import Transformer


@torch.no_grad()
def fill(net: WeightStore, model: Transformer) -> None:
    """Write the weights of a plain model to the slices that its architecture reads.

    Raises:
        InputError: the store has no place for them: the architecture is not of the supernet's space.
    """
    for step in plan(model.arch):
        module = model.get_submodule(step.path)
        tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        net.slices(step)  # which checks that they fit
        for entry in net.entries(step.path, step.unit):
            tensor = tensors[entry.name]
            if entry.layout.core is not None:
                tensor = tensor - _fill_core(net, step, entry.layout.core, tensor)
            for (name, window), piece in zip(windows(net, step, entry), split(entry, tensor)):
                net.get_stored(name)[window] = piece.to(net.get_stored(name))


def _fill_core(net: WeightStore, step: Step, core: Core, full: Tensor) -> Tensor:
    """Let the factors of a full matrix be its singular vectors, so that every prefix is the best of its rank.

    Gives their product, as a full matrix reads it.
    """
    left, right = (net.get_stored(store_name(step.path, step.unit, name)) for name in (core.left, core.right))
    rank, scale = left.shape[1], (left.shape[1] / full.shape[1]) ** 0.5 if core.scaled else 1.0
    rows, values, columns = torch.linalg.svd(full.to(left), full_matrices=False)
    rank = min(rank, len(values))
    root = (values[:rank] / scale).sqrt()
    one, other = rows[:, :rank] * root, columns[:rank].T * root
    left.zero_()[: len(one), :rank] = one
    (right.T if core.transposed else right).zero_()[: len(other), :rank] = other
    return (scale * one @ other.T).to(full)


def windows(net: WeightStore, step: Step, entry: TensorEntry) -> list[tuple[str, tuple[slice, ...]]]:
    """Where a plain tensor is in the store: for each of its pieces the stored tensor and the slice of it."""
    names = [store_name(step.path, step.unit, piece.name) for piece in entry.pieces]
    return [(name, piece.window(tuple(net.get_stored(name).shape))) for name, piece in zip(names, entry.pieces)]


def split(entry: TensorEntry, tensor: Tensor) -> Sequence[Tensor]:
    """The pieces of a plain tensor, each in the shape the store keeps."""
    finer = tensor.reshape(entry.layout.shape or entry.shape)
    if entry.layout.parts is None:
        return (finer,)
    axis, sizes = entry.layout.parts
    return torch.split(finer, list(sizes), dim=axis)


def join(entry: TensorEntry, pieces: Sequence[Tensor]) -> Tensor:
    """The plain tensor of pieces: the inverse of `split`."""
    axis = entry.layout.parts[0] if entry.layout.parts else 0
    return torch.cat(list(pieces), dim=axis).reshape(entry.shape)
