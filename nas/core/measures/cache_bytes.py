"""The measure `cache_bytes`: size of the decoding cache of one sequence."""

from __future__ import annotations

import math
from functools import lru_cache

import torch

from nas.core.measures._base import BYTES, MeasureKind, PriceConditions
from search_spaces import Architecture, InputError
from search_spaces.units import SUBLAYERS, Unit
from supernet.cache import decoder_steps, empty_states, state_shapes


class CacheBytes(MeasureKind):
    """Bytes of keys, values and convolution states after reading a sequence, in float32."""

    name, label, unit, units, of_length = "cache_bytes", "bytes of the decoding cache", "B", BYTES, True
    superlative = "smallest decoding cache"

    def price(self, arch: Architecture, at: PriceConditions) -> float:
        return cache_bytes(arch, at.seq_len)

    def why_not(self, arch: Architecture) -> str:
        if not decoder_steps(arch):
            return f"the family {arch.family} does not decode and has no cache; allowed only for models with a decoder"
        try:
            empty_states(arch, 1, torch.empty(0, device="meta"))
        except InputError as error:
            return error.faults[0].message
        return ""


CACHE_BYTES = CacheBytes()


def cache_bytes(arch: Architecture, length: int | None = None) -> int:
    """Cache size of the decoder's sub-layers for `length` tokens, by default for the whole context.

    Layers that share weights have separate caches. A seq2seq model reads a source of the same length; the encoder's
    output is not counted, because cross-attention caches its keys and values instead.

    Raises:
        InputError: the length exceeds the context, or a block cannot continue a sequence.
    """
    length = arch.context if length is None else length
    if not 0 <= length <= arch.context:
        raise InputError("length", f"{length} is not allowed; allowed: 0 to the context {arch.context}")
    return sum(_unit_bytes(step.unit, length) for step in decoder_steps(arch) if step.unit.role in SUBLAYERS)


@lru_cache(maxsize=100_000)
def _unit_bytes(unit: Unit, length: int) -> int:
    """Computed from the state shapes that the unit's module declares."""
    return sum(math.prod(shape) for shape in state_shapes(unit, 1, length)) * torch.float32.itemsize
