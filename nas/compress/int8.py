"""Eight bits for weights and for what they are multiplied with."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from nas.compress._base import Technique, Trains, Work
from supernet import Transformer
from supernet.calibration import calibrate
from supernet.fit import enough_memory, less_memory
from supernet.matrices import Weight
from supernet.quantised import DYNAMIC, STATIC, Quantised, quantise
from supernet.rounding import Int8 as Matrix
from supernet.rounding import to_int8


class Int8(Technique):
    """Every matrix in eight bits with a scale per output.

    What it is multiplied with is rounded by a scale per token, or by fixed ones that training batches show. With `qat`
    the model is trained as it will run: rounded in every forward pass, gradients passing straight through.
    """

    name: ClassVar[str] = "int8"
    options: ClassVar[tuple[str, ...]] = ("static", "qat")
    static: bool = False
    qat: bool = False
    batches: int = Field(16, ge=1, description="training batches that fixed scales are read off")

    @property
    def suffix(self) -> str:
        """`int8`, and what more was asked for."""
        return "int8" + "-static" * self.static + "-qat" * self.qat

    @property
    def trains(self) -> Trains:
        """For `qat` only."""
        return "always" if self.qat else "never"

    @property
    def settable(self) -> tuple[str, ...]:
        """Only fixed scales need batches."""
        return ("batches",) if self.static else ()

    def apply(self, work: Work) -> Transformer | None:
        """Round the model; train it first where asked."""
        scales = self._fixed_scales(work) if self.static else {}
        model: Transformer | None = work.model
        if self.qat:
            here = {name: scale.to(work.device) for name, scale in scales.items()}
            model = work.train(work.model, change=lambda name, weight: Weight.of(
                Matrix(*to_int8(weight), here.get(name))))
        if model is None:
            return None
        made = quantise(model, STATIC if self.static else DYNAMIC)
        for name, scale in scales.items():
            made.input_scales(name).copy_(scale)
        return made

    def told(self, before: Transformer, after: Transformer) -> dict[str, Any]:
        """How inputs are rounded, and whether it was trained for it."""
        fixed = {"activations": "static", "batches": self.batches} if self.static else {"activations": "dynamic"}
        return {**fixed, "qat": self.qat}

    def _fixed_scales(self, work: Work) -> dict[str, Tensor]:
        """Read off the model as it is, so that a training that is resumed has the same ones."""
        made: Quantised = quantise(work.model, STATIC).to(work.device)
        with enough_memory("calibration", less_memory(work.recipe)):
            calibrate(made, work.batches(self.batches))
        return {name: made.input_scales(name).cpu() for name in made.inputs}
