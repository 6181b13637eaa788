"""How similar the layers of a model are: whether they could share weights."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from nas.core.space_around import SimilarLayers
from search_spaces.architecture import Layer
from search_spaces.space.layers import SHARED_PARTS, Sharing
from supernet import Transformer

LEAST_COSINE = 0.9
"""Minimum cosine of weights that may be shared. At 0.9 a layer that takes over another's weights is off by 45 % of
their norm, which training can make up for; independently trained layers have a cosine near 0."""


def similar_layers(model: Transformer) -> dict[str, SimilarLayers]:
    """By stack, what may be shared; stacks of one layer, and those whose layers differ or share already, are left out.
    """
    return {stack: _compared(model, stack, layers) for stack, layers in model.arch.stacks.items()
            if len(layers) > 1 and _comparable(layers)}


def _comparable(layers: tuple[Layer, ...]) -> bool:
    slots = {slot for layer in layers for slot in (("mixer", layer.mixer_slot), ("ffn", layer.ffn_slot))}
    return len(slots) == 2 * len(layers) and len({(layer.mixer, layer.cross, layer.ffn) for layer in layers}) == 1


def _compared(model: Transformer, stack: str, layers: tuple[Layer, ...]) -> SimilarLayers:
    weights = [{"mixer": _weights(model, f"{stack}.{layer.mixer_slot}", ("mixer", "cross")),
                "ffn": _weights(model, f"{stack}.{layer.ffn_slot}", ("ffn",))} for layer in layers]
    depth, cosines = len(layers), {}
    for text in _ways(depth):
        rule = Sharing.parse(text)
        cosines[text] = min(_cosine(weights[i][part], weights[rule.leader(part, i)][part])
                          for part in SHARED_PARTS[rule.scope] for i in range(depth) if rule.leader(part, i) != i)
    allowed = {text: cosine for text, cosine in cosines.items() if cosine >= LEAST_COSINE}
    if not allowed:
        return SimilarLayers((), max(cosines.values()))
    chosen = _largest_groups(tuple(allowed))
    return SimilarLayers(chosen, min(allowed[text] for text in chosen))


def _ways(depth: int) -> Iterator[str]:
    """Every way to share, larger groups first; `all` is one group of all layers."""
    for scope in ("all", "attention", "ffn"):
        yield scope
        yield from (f"{scope}/{group}" for group in range(depth - 1, 1, -1))


def _largest_groups(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The first way of each scope: the one that saves most."""
    first: dict[str, str] = {}
    for text in texts:
        first.setdefault(text.partition("/")[0], text)
    return tuple(first.values())


def _weights(model: Transformer, path: str, roles: tuple[str, ...]) -> Tensor:
    """The matrices of a layer's parts in one row."""
    starts = tuple(f"{path}.{role}." for role in roles)
    return torch.cat([tensor.detach().flatten().double() for name, tensor in model.named_parameters()
                      if tensor.ndim > 1 and name.startswith(starts)])


def _cosine(one: Tensor, other: Tensor) -> float:
    length = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / length if length else 0.0
