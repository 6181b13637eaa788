"""Weight-only int4 quantisation."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nas.stages.compress.technique import CompressionContext, Technique
from supernet import Transformer
from supernet.compression.quantised import Quantisation, quantise


class QuantiseInt4(Technique):
    """Every matrix in four bits, two to a byte, with a scale and a zero point per group of inputs."""

    name: ClassVar[str] = "int4"
    help: ClassVar[str] = "Quantise weights to 4 bits"
    options: ClassVar[tuple[str, ...]] = ("group",)
    group: int = Field(32, ge=2, description="number of inputs that share a scale")

    @property
    def suffix(self) -> str:
        """`int4`."""
        return self.name

    def apply(self, context: CompressionContext) -> Transformer:
        """Round the model."""
        return quantise(context.model, Quantisation(scheme="int4", group=self.group))
