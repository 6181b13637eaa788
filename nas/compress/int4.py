"""Four bits for weights; what they are multiplied with stays as it is."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nas.compress._base import Technique, Work
from supernet import Transformer
from supernet.quantised import Quantisation, quantise


class Int4(Technique):
    """Every matrix in four bits, two to a byte, with a scale and a zero point per group of inputs."""

    name: ClassVar[str] = "int4"
    options: ClassVar[tuple[str, ...]] = ("group",)
    group: int = Field(32, ge=2)

    @property
    def suffix(self) -> str:
        """The technique alone."""
        return self.name

    def apply(self, work: Work) -> Transformer:
        """Round the model."""
        return quantise(work.model, Quantisation(scheme="int4", group=self.group))
