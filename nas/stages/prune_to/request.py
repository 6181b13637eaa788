"""The request of the stage `prune-to`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nas.core.measures import Limit, parse_limits
from search_spaces import Architecture, InputError
from search_spaces.errors import Option

METHODS = {"uniform": "shrink all widths, heads and feed-forwards by one factor",
           "layers": "remove whole layers, evenly spread (LayerDrop)",
           "importance": "remove the least important feed-forward channels and heads of all layers first"}
SCORES = ("activation", "taylor")


@dataclass(frozen=True)
class PruneToRequest:
    """A smaller version of a subnet within limits.

    Args:
        subnet: a folder, or RUN/KEY, where KEY is a prefix of its key.
        max: upper limits, such as `latency:cpu=12ms` or `params=5M`.
        method: one of `METHODS`; by default uniform, with `layers` layers.
        layers: the layers that remain, counted from 0: `0,2,5`, or of a model with two stacks `encoder=0,2`.
        score: the importance of channels and heads: mean activation, or the change of the loss to first order
            (taylor). By default taylor for the method importance, which compares layers, and else activation.
        out: the new subnet's folder; by default the subnet's name and the method.

    Raises:
        InputError: a value is not allowed, or both limits and layers are missing.
    """

    subnet: str
    max: tuple[str, ...] = ()
    method: str | None = None
    layers: tuple[str, ...] = ()
    score: str | None = None
    out: Path | None = None

    def __post_init__(self) -> None:
        if self.method is not None and self.method not in METHODS:
            raise InputError(Option("method"), f"{self.method!r} is not allowed; allowed: {', '.join(METHODS)}")
        if self.score is not None and self.score not in SCORES:
            raise InputError(Option("score"), f"{self.score!r} is not allowed; allowed: {', '.join(SCORES)}")
        if self.layers and self.method not in (None, "layers"):
            raise InputError(Option("layers"), f"needs the method layers, not {self.method}")
        if not self.max and not self.layers:
            raise InputError(Option("max"), "is missing: the limit, such as latency:cpu=12ms or params=5M")
        parse_limits(self.max, (), {})
        list(self._listed_layers())

    @property
    def method_name(self) -> str:
        """The method, or its default."""
        return self.method or ("layers" if self.layers else "uniform")

    @property
    def scored_by(self) -> str:
        """The importance score."""
        return self.score or ("taylor" if self.method_name == "importance" else "activation")

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The upper limits."""
        return parse_limits(self.max, (), {})

    def _listed_layers(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        for text in self.layers:
            stack, _, listed = text.rpartition("=")
            numbers = listed.split(",")
            if not all(number.strip().isdecimal() and len(number.strip()) <= 9 for number in numbers):
                raise InputError(Option("layers"), f"{text!r} is not allowed; allowed: numbers of layers such as "
                                                   "0,2,5, or encoder=0,2 for one of two stacks")
            yield stack, tuple(sorted({int(number) for number in numbers}))

    def layers_of(self, arch: Architecture) -> Mapping[str, tuple[int, ...]]:
        """By stack, the layers to keep. Raises InputError for a layer or stack that the model does not have."""
        layers: dict[str, tuple[int, ...]] = {}
        for stack, listed in self._listed_layers():
            if not stack and len(arch.stacks) > 1:
                raise InputError(Option("layers"), f"{','.join(map(str, listed))} is ambiguous: the model has "
                                                   f"{' and '.join(arch.stacks)}; write {next(iter(arch.stacks))}=0,2")
            stack = stack or next(iter(arch.stacks))
            if stack not in arch.stacks:
                raise InputError(Option("layers"), f"the model has no {stack}; allowed: {', '.join(arch.stacks)}")
            most = len(arch.stacks[stack]) - 1
            if listed[-1] > most:
                raise InputError(Option("layers"), f"the model has no layer {listed[-1]} in its {stack}; allowed: 0 to "
                                                   f"{most}")
            layers[stack] = listed
        return layers
