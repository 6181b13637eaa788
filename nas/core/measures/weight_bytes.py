"""The measure `weight_bytes`: size of the weights."""

from __future__ import annotations

from nas.core.costs import count
from nas.core.measures._base import BYTES, MeasureKind, PriceConditions
from search_spaces import Architecture
from supernet import Transformer
from supernet.pretrained import stored


class WeightBytes(MeasureKind):
    """Bytes of the weights: in float32, or as a compressed model stores them."""

    name, label, unit, units, place = "weight_bytes", "bytes of weights", "B", BYTES, 2
    superlative = "smallest weights"

    def price(self, arch: Architecture, at: PriceConditions) -> float:
        return count(arch, at.seq_len).weight_bytes

    def price_model(self, model: Transformer, at: PriceConditions) -> float:
        return float(sum(tensor.nbytes for tensor in stored(model)[1].values()))


WEIGHT_BYTES = WeightBytes()
