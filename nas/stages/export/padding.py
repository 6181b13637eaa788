"""Pads layers of different sizes with zeros to equal sizes, so that a stock class of transformers can hold the model.

Feed-forward channels and heads that are added have zero weights, so the outputs stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch

from nas.core.costs import count
from nas.core.resolve import DEFAULT_LENGTH
from nas.importers import NotExpressibleError, stock_models, stock_tensors
from search_spaces import Architecture, InputError
from search_spaces.architecture import Layer
from search_spaces.block import BlockConfig
from search_spaces.errors import Option
from supernet import Transformer, extract
from supernet.filling import fill
from supernet.store import WeightStore

PADDED = ("inner", "n_heads", "n_kv_heads", "queries")
"""Dims that can be padded with zeros."""
TOLERANCE = 1e-5
"""Maximum difference caused by padding, relative to the largest output: longer sums are rounded differently."""


@dataclass(frozen=True)
class PaddedModel:
    """A model with padded layers, and what padding costs."""

    model: Transformer
    cost: dict[str, str]


def padded(model: Transformer, where: str, model_type: str = "") -> PaddedModel:
    """A model whose layers have equal sizes, with the same outputs.

    Args:
        model_type: of the checkpoint it was imported from, whose class is tried first.

    Raises:
        InputError: its layers already have equal sizes, or no stock class can hold it with padded layers either.
    """
    arch = model.arch
    if _has_class(model, model_type):
        raise InputError(Option("pad"), f"has no effect on {where}: a stock class of transformers can hold it as it is")
    wider = next((candidate for candidate in _candidates(arch) if any(stock_models(candidate, model_type))), None)
    result = None if wider is None else _filled(model, wider)
    if wider is None or result is None or not _has_class(result, model_type):
        raise InputError(Option("pad"), f"no stock class of transformers can hold {where}, even with padded heads and "
                                        "feed-forwards; export it without padding, which writes its own modelling "
                                        "file")
    _check_same(model, result, where)
    return PaddedModel(result, _cost(arch, wider))


def _has_class(model: Transformer, model_type: str) -> bool:
    """Whether a stock class can hold the architecture and the weights: some share tensors that ours do not."""
    for importer, _, stock in stock_models(model.arch, model_type):
        with suppress(NotExpressibleError):
            stock_tensors(model, importer, stock)
            return True
    return False


def _candidates(arch: Architecture) -> Iterator[Architecture]:
    """The architecture with equal layers: as many heads as the widest layer has, or as fill the width."""
    for full_heads in (False, True):
        stacks: dict[str, Any] = {}
        for stack, layers in arch.stacks.items():
            sizes = {role: _largest([getattr(layer, role) for layer in layers]) for role in ("mixer", "cross", "ffn")}
            stacks[stack] = tuple(_grown(layer, sizes, arch.width if full_heads else 0) for layer in layers)
        try:
            yield replace(arch, **stacks)
        except InputError:
            continue


def _largest(blocks: list[BlockConfig | None]) -> dict[str, int]:
    """The largest value of each size over the layers."""
    dims = [block.filled() for block in blocks if block is not None]
    return {name: max(int(sizes[name]) for sizes in dims if name in sizes)
            for name in PADDED if any(name in sizes for sizes in dims)}


def _grown(layer: Layer, sizes: dict[str, dict[str, int]], width: int) -> Layer:
    changed: dict[str, Any] = {}
    for role, largest in sizes.items():
        block = getattr(layer, role)
        if block is None:
            continue
        dims, given = block.filled(), dict(block.dims)
        grown = {name: value for name, value in largest.items() if name in dims}
        if width and dims.get("n_heads") == dims.get("n_kv_heads") and dims.get("head_dim"):
            heads = max(width // int(dims["head_dim"]), int(grown.get("n_heads", 1)))
            grown |= {name: heads for name in ("n_heads", "n_kv_heads") if name in grown}
        changed[role] = BlockConfig.of(block.kind, {**given, **{name: value for name, value in grown.items()
                                                                if name in given or value != dims[name]}})
    return replace(layer, **changed)


def _filled(model: Transformer, wider: Architecture) -> Transformer:
    store = WeightStore.of(wider)
    for tensor in (*store.parameters(), *store.buffers()):
        tensor.data.zero_()
    fill(store, model)
    return extract(store, wider).eval().requires_grad_(False)


@torch.no_grad()
def _check_same(model: Transformer, other: Transformer, where: str) -> None:
    """Raises InputError if the outputs differ."""
    arch = model.arch
    ids = torch.randint(arch.vocab_size, (2, min(arch.context, 16)), generator=torch.Generator().manual_seed(0))
    inputs = (ids, ids) if arch.family == "seq2seq" else (ids,)
    mine, theirs = model.eval()(*inputs), other(*inputs)
    worst = float((mine - theirs).abs().max() / mine.abs().max().clamp_min(1e-12))
    if not worst <= TOLERANCE:
        raise InputError(Option("pad"), f"{where} cannot be padded: its outputs would change by {worst:.2g}")


def _cost(arch: Architecture, wider: Architecture) -> dict[str, str]:
    length = min(DEFAULT_LENGTH, arch.context)
    before, after = count(arch, length), count(wider, length)
    return {f"padded_{name}": f"{one:,} -> {other:,} (+{100 * (other / one - 1):.0f} %)"
            for name, one, other in (("params", before.params, after.params), ("macs", before.macs, after.macs))}
