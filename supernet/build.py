"""Unit -> plain module."""

from __future__ import annotations

import torch
from torch import nn

from search_spaces import registry as kinds
from search_spaces import residual as residuals
from search_spaces.errors import InputError
from search_spaces.units import SUBLAYERS, Unit
from supernet.layers.norms import make_norm
from supernet.layout import entries, initialise


def build_unit(unit: Unit) -> nn.Module:
    """The plain module of a unit, on the default device, its weights not yet set (see `fresh`)."""
    facts = dict(unit.facts)
    if unit.role == "norm":
        return make_norm(unit.block.kind, **facts)  # type: ignore[arg-type]
    block: nn.Module = kinds.get(unit.block.kind).module(**unit.settings())
    if unit.role not in SUBLAYERS:
        return block
    residual = residuals.get(str(facts.get("residual", residuals.PLAIN)))
    surrounded: nn.Module = residual.module(block, **unit.pick(residual.facts))
    return surrounded


def build_on_meta(unit: Unit) -> nn.Module:
    """The plain module of a unit without storage. Raises InputError if no tensor can be that large."""
    try:
        with torch.device("meta"):
            return build_unit(unit)
    except RuntimeError as error:
        raise InputError(str(unit), f"cannot be built: {str(error).splitlines()[0]}") from None


def fresh(module: nn.Module, generator: torch.Generator | None = None) -> nn.Module:
    """Initialise every learned or random tensor, by the same rule as the supernet's store."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for entry in entries(module):
        initialise(tensors[entry.name].data.view(entry.layout.shape or entry.shape), entry, generator)
    return module


def set_dropout(module: nn.Module, rate: float) -> nn.Module:
    """Set the dropout rate in a plain module."""
    for inner in module.modules():
        if isinstance(inner, nn.Dropout):
            inner.p = rate
    return module
