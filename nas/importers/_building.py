"""Architectures of pretrained models: canonical blocks from plain dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from search_spaces import Architecture
from search_spaces import registry as kinds
from search_spaces.architecture import Layer
from search_spaces.block import BlockConfig, canonical_block, head_facts
from search_spaces.kind import MOST_SLOTS, NORM_EPS, Facts

BlockDims = tuple[str, Mapping[str, Any]]
"""A kind, and the dims that have no default or differ from it."""


def stacked(mixer: BlockDims, ffn: BlockDims, slots: Sequence[int], cross: BlockDims | None = None) -> dict[str, Any]:
    """A stack of equal layers in these slots, for `assemble`. Raises ValueError if there are too many."""
    check_depth(len(slots))
    return {"mixer": mixer, "ffn": ffn, "slots": slots, "cross": cross}


def check_depth(n_layers: int) -> None:
    """Raises ValueError if a stack cannot have so many layers; called before they are made: there may be billions."""
    if n_layers > MOST_SLOTS:
        raise ValueError(f"a stack of {n_layers:,} layers is not supported; supported: up to {MOST_SLOTS}")


def assemble(*, family: str, vocab_size: int, context: int, width: int, embedding: BlockDims, head: BlockDims,
             norm: str, norm_eps: float, placement: str, positions: str, bias: bool, n_classes: int = 0,
             n_types: int = 0, share_inputs: bool = True, encoder: dict[str, Any] | None = None,
             decoder: dict[str, Any] | None = None) -> Architecture:
    """The architecture with these parts. Raises InputError or ValueError if they contradict each other."""
    eps = 0.0 if norm_eps == NORM_EPS[norm] else norm_eps
    facts = Facts(width=width, context=context, vocab_size=vocab_size, n_classes=n_classes, n_types=n_types,
                  causal=False, positions=positions, norm=norm, placement=placement, bias=bias,
                  sides=2 if family == "seq2seq" and share_inputs else 1, norm_eps=eps)
    embedding_block = make_block(embedding, facts)
    stacks = {name: _layers(stack, Facts(**{**facts.as_dict(), "causal": name == "decoder"}))  # type: ignore[arg-type]
              for name, stack in (("encoder", encoder), ("decoder", decoder)) if stack}
    return Architecture(family=family, vocab_size=vocab_size, context=context, width=width, embedding=embedding_block,
                        head=make_block(head, head_facts(facts, embedding_block)), n_classes=n_classes, n_types=n_types,
                        positions=positions, norm=norm, placement=placement, bias=bias, share_inputs=share_inputs,
                        norm_eps=eps, **stacks)  # type: ignore[arg-type]


def _layers(stack: dict[str, Any], facts: Facts) -> tuple[Layer, ...]:
    mixer, ffn = make_block(stack["mixer"], facts), make_block(stack["ffn"], facts)
    cross = make_block(stack["cross"], facts) if stack["cross"] else None
    return tuple(Layer(mixer=mixer, ffn=ffn, mixer_slot=slot, ffn_slot=slot, cross=cross) for slot in stack["slots"])


def make_block(block: BlockDims, facts: Facts) -> BlockConfig:
    """A canonical block; dims that are not given have their defaults."""
    kind = kinds.get(block[0])
    raw = {**{dim.name: dim.default for dim in kind.dims if dim.default is not None}, **block[1]}
    return canonical_block(kind.name, kind.resolve(raw, facts.as_dict()), facts)
