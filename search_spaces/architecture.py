"""An architecture is a value: frozen, canonical, convertible to and from JSON, and named by its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from search_spaces.block import BlockConfig, head_facts
from search_spaces.errors import Fault, InputError, shown
from search_spaces.files.reading import parse_json
from search_spaces.kind import FAMILIES, Facts, Value
from search_spaces.residual import PLAIN
from search_spaces.validation import architecture_faults

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Layer:
    """One layer: a token mixer, a cross-attention where the stack has one, a feed-forward.

    Layers that name the same slot share its weights; the cross-attention lives in the mixer's slot. A block between
    this layer and the next, such as pooling, belongs to the layer and has a slot that is never shared.
    """

    mixer: BlockConfig
    ffn: BlockConfig
    mixer_slot: int
    ffn_slot: int
    cross: BlockConfig | None = None
    between: BlockConfig | None = None
    between_slot: int | None = None

    def parts(self) -> Iterator[tuple[str, BlockConfig, int]]:
        """(role, block, slot) in the order they run."""
        yield "mixer", self.mixer, self.mixer_slot
        if self.cross is not None:
            yield "cross", self.cross, self.mixer_slot
        yield "ffn", self.ffn, self.ffn_slot
        if self.between is not None:
            yield "between", self.between, self.between_slot  # type: ignore[misc]


@dataclass(frozen=True)
class Architecture:
    """Everything that determines the plain model, and nothing else. Depth is the length of a stack.

    Raises:
        InputError: the fields contradict each other or a kind's rules, or are not canonical.
    """

    family: str
    vocab_size: int
    context: int
    width: int
    embedding: BlockConfig
    head: BlockConfig
    encoder: tuple[Layer, ...] = ()
    decoder: tuple[Layer, ...] = ()
    n_classes: int = 0
    n_types: int = 0
    positions: str = "learned"
    norm: str = "layernorm"
    placement: str = "pre"
    bias: bool = True
    share_inputs: bool = True
    """Whether source and target tokens share one embedding (seq2seq)."""
    residual: str = PLAIN
    """Name of the installed residual that adds sub-layers to the residual stream."""
    norm_eps: float = 0.0
    """What norms add to the variance; 0 for the norm's default."""

    def __post_init__(self) -> None:
        faults = list(architecture_faults(self))
        if faults:
            raise InputError("architecture", faults)

    @property
    def stacks(self) -> dict[str, tuple[Layer, ...]]:
        """The layers of each stack the family has."""
        return {name: getattr(self, name) for name in FAMILIES[self.family]}

    @property
    def depth(self) -> int:
        """Number of layers in all stacks."""
        return len(self.encoder) + len(self.decoder)

    def facts(self, causal: bool) -> Facts:
        """Facts that blocks may use; `causal` is true inside a decoder."""
        return Facts(
            width=self.width, context=self.context, vocab_size=self.vocab_size, n_classes=self.n_classes,
            n_types=self.n_types, causal=causal, positions=self.positions, norm=self.norm,
            placement=self.placement, bias=self.bias, sides=2 if self.family == "seq2seq" and self.share_inputs else 1,
            residual=self.residual, norm_eps=self.norm_eps,
        )

    def head_facts(self) -> Facts:
        """Facts that the head may use."""
        return head_facts(self.facts(causal=False), self.embedding)

    @cached_property
    def key(self) -> str:
        """SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON. What earlier versions did not know is left out at its default."""
        data: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
        data |= {name: getattr(self, name) for name in _PLAIN}
        data |= {name: getattr(self, name) for name, usual in _OPTIONAL.items() if getattr(self, name) != usual}
        data["embedding"] = _block_dict(self.embedding)
        data["head"] = _block_dict(self.head)
        for name, layers in self.stacks.items():
            data[name] = [_layer_dict(layer) for layer in layers]
        return data

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, where: str = "architecture") -> Architecture:
        """The architecture a JSON text describes.

        Raises:
            InputError: the text is not JSON, or not an architecture.
        """
        data = parse_json(text, where, "the file may be truncated", unique=True)
        try:
            return cls.from_dict(data)
        except InputError as error:
            raise InputError(where, error.faults) from None

    @classmethod
    def from_dict(cls, data: object) -> Architecture:
        """The inverse of `to_dict`. Raises InputError."""
        data = _table(data, "")
        version = data.pop("schema_version", None)
        if version != SCHEMA_VERSION or isinstance(version, bool):
            message = f"{shown(version)} is not supported; this version reads {SCHEMA_VERSION}"
            raise InputError("architecture", [Fault("schema_version", message)])
        parsed: dict[str, Any] = {}
        for name, value in data.items():
            if name in ("encoder", "decoder"):
                if not isinstance(value, list):
                    raise InputError("architecture", [Fault(name, "must be a list of layers")])
                parsed[name] = tuple(_read_layer(layer, f"{name}.{i}") for i, layer in enumerate(value))
            elif name in ("embedding", "head"):
                parsed[name] = _read_block(value, name)
            elif name in _PLAIN or name in _OPTIONAL:
                parsed[name] = value
            else:
                raise InputError("architecture", [Fault(name, f"unknown key; allowed: {', '.join(_ALL)}")])
        missing = [name for name in ("family", "vocab_size", "context", "width", "embedding", "head")
                   if name not in parsed]
        if missing:
            raise InputError("architecture", [Fault(name, "is missing") for name in missing])
        return cls(**parsed)


_PLAIN = ("family", "vocab_size", "context", "width", "n_classes", "n_types", "positions", "norm", "placement",
          "bias", "share_inputs")
_OPTIONAL: dict[str, Value] = {"residual": PLAIN, "norm_eps": 0.0}
_ALL = (*_PLAIN, *_OPTIONAL, "embedding", "head", "encoder", "decoder")
_LAYER = ("mixer", "cross", "ffn", "between")


def _block_dict(block: BlockConfig, slot: int | None = None) -> dict[str, Value]:
    data: dict[str, Value] = {"kind": block.kind, **dict(block.dims)}
    return data if slot is None else {**data, "slot": slot}


def _layer_dict(layer: Layer) -> dict[str, Any]:
    return {role: _block_dict(block, None if role == "cross" else slot) for role, block, slot in layer.parts()}


def _table(data: object, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InputError("architecture", [Fault(where, f"must be a JSON object, not {type(data).__name__}")])
    return dict(data)


def _read_block(data: object, where: str) -> BlockConfig:
    table = _table(data, where)
    kind = table.pop("kind", None)
    if not isinstance(kind, str):
        raise InputError("architecture", [Fault(f"{where}.kind", f"{shown(kind)} is not the name of a block kind")])
    for name, value in table.items():
        if not isinstance(value, (int, float, bool, str)):
            message = f"{shown(value)} is not a number, string or boolean"
            raise InputError("architecture", [Fault(f"{where}.{name}", message)])
    return BlockConfig.of(kind, table)


def _read_layer(data: object, where: str) -> Layer:
    table = _table(data, where)
    unknown = sorted(set(table) - set(_LAYER))
    if unknown:
        message = f"unknown key; allowed: {', '.join(_LAYER)}"
        raise InputError("architecture", [Fault(f"{where}.{unknown[0]}", message)])
    read: dict[str, Any] = {}
    for role in _LAYER:
        if role in table or role in ("mixer", "ffn"):
            block = _table(table.get(role), f"{where}.{role}")
            if role != "cross":
                read[f"{role}_slot"] = block.pop("slot", None)
            read[role] = _read_block(block, f"{where}.{role}")
    return Layer(**read)
