"""Attention heads: their importance, and models with some of them removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from search_spaces.architecture import Architecture
from search_spaces.block import BlockConfig
from search_spaces.units import SUBLAYERS, plan
from supernet.batch import Batch
from supernet.compression.matrices import plain_model
from supernet.declared import AttentionHeads
from supernet.inference import run_model
from supernet.train.losses import label_loss, labelled
from supernet.transformer import Transformer

Heads = Mapping[str, Sequence[int]]
"""The path of a sub-layer -> some of its heads."""


def attentions(model: Transformer) -> dict[str, tuple[str, AttentionHeads]]:
    """Path of every sub-layer whose block declares prunable heads -> the path of the block, and the heads.

    Heads of other kinds depend on the width (long-short range attention), or there is only one (DeLighT).
    """
    known = {}
    for path in dict.fromkeys(step.path for step in plan(model.arch) if step.role in SUBLAYERS):
        declare = getattr(model.get_submodule(f"{path}.block"), "heads", None)
        if callable(declare):
            known[path] = (f"{path}.block", declare())
    return known


@contextmanager
def gated(model: Transformer, gates: Mapping[str, Tensor]) -> Iterator[None]:
    """Multiply the outputs of heads by gates.

    Args:
        gates: by the path of the sub-layer: (heads,), or (batch, 1, heads) for each sequence its own.
    """
    known = attentions(model)
    outputs = {path: model.get_submodule(f"{name}.{attention.output}") for path, (name, attention) in known.items()}
    hooks = [outputs[path].register_forward_pre_hook(partial(_gate, gate)) for path, gate in gates.items()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _gate(gate: Tensor, o: nn.Module, inputs: tuple[Tensor]) -> Tensor:
    said = torch.unflatten(inputs[0], -1, (gate.shape[-1], -1))
    return (said * gate.unsqueeze(-1)).flatten(-2)


def importance(model: Transformer, batches: Iterable[Batch]) -> dict[str, Tensor]:
    """Importance of each head: the mean over sequences of the absolute gradient of the loss at its gate.

    Gradients of a layer are divided by their norm, because later layers have larger ones (Michel et al., 2019).
    """
    known = attentions(model)
    scores = {path: torch.zeros(attention.n_heads) for path, (_, attention) in known.items()}
    for batch in batches if known else ():
        device = batch.tokens.device
        gates = {path: torch.ones(len(batch.tokens), 1, attention.n_heads, device=device, requires_grad=True)
                 for path, (_, attention) in known.items()}
        with gated(model, gates), torch.enable_grad():
            loss = label_loss(*labelled(run_model(model, model.arch, batch), batch.labels))
        for path, slope in zip(gates, torch.autograd.grad(loss, list(gates.values()))):
            scores[path] += slope.abs().sum((0, 1)).cpu()
    return {path: score / score.norm().clamp(min=1e-12) for path, score in scores.items()}


def least_important(model: Transformer, scores: Mapping[str, Tensor], n: int) -> dict[str, list[int]]:
    """At most `n` prunable heads with the lowest scores; every sub-layer keeps one.

    Query heads that share a key and value head are removed together, unless all of them share one.
    """
    units: list[tuple[float, str, list[int]]] = []
    for path, (_, attention) in attentions(model).items():
        size = attention.n_heads // attention.n_kv_heads if attention.n_kv_heads > 1 else 1
        units += [(float(scores[path][first : first + size].mean()), path, list(range(first, first + size)))
                  for first in range(0, attention.n_heads, size)]
    left = Counter(path for _, path, _ in units)
    chosen: dict[str, list[int]] = {}
    for _, path, heads in sorted(units):
        if left[path] > 1 and len(heads) <= n:
            left[path], n = left[path] - 1, n - len(heads)
            chosen.setdefault(path, []).extend(heads)
    return chosen


def without(model: Transformer, heads: Heads) -> Transformer:
    """The model of the smaller architecture; its outputs equal those of the model with these heads zeroed."""
    tensors, known = model.state_dict(), attentions(model)
    dims: dict[str, dict[str, int]] = {}
    for path, gone in heads.items():
        name, attention = known[path]
        kept = [head for head in range(attention.n_heads) if head not in gone]
        pairs = sorted({head * attention.n_kv_heads // attention.n_heads for head in kept})
        dims[path] = attention.dims(len(kept), len(pairs))
        for tensor, (axis, queries) in attention.tensors.items():
            full = f"{name}.{tensor}"
            heads_kept, n_heads = (kept, attention.n_heads) if queries else (pairs, attention.n_kv_heads)
            if full in tensors:
                tensors[full] = _picked(tensors[full], axis, heads_kept, n_heads)
    return plain_model(_smaller(model.arch, dims), tensors)


def _picked(tensor: Tensor, axis: int, heads: Sequence[int], n_heads: int) -> Tensor:
    """Some of the `n_heads` equal parts of an axis."""
    index = torch.tensor(heads, device=tensor.device)
    return torch.unflatten(tensor, axis, (n_heads, -1)).index_select(axis, index).flatten(axis, axis + 1)


def _smaller(arch: Architecture, dims: Mapping[str, Mapping[str, int]]) -> Architecture:
    """The architecture with other dims in the sub-layers of these paths."""
    changed: dict[str, Any] = {}
    for stack, layers in arch.stacks.items():
        smaller = []
        for layer in layers:
            blocks: dict[str, Any] = {
                role: BlockConfig.of(block.kind, {**dict(block.dims), **dims.get(f"{stack}.{slot}.{role}", {})})
                for role, block, slot in layer.parts()}
            smaller.append(replace(layer, **blocks))
        changed[stack] = tuple(smaller)
    return replace(arch, **changed)
