"""int8 quantisation of weights and activations."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from nas.stages.compress.technique import CompressionContext, Technique, Trains
from supernet import Transformer
from supernet.compression.calibration import calibrate
from supernet.compression.matrices import Weight, matrices
from supernet.compression.quantised import DYNAMIC, STATIC, Quantised, quantise
from supernet.compression.rounding import Int8Matrix, to_int8
from supernet.train.fit import enough_memory, less_memory


class QuantiseInt8(Technique):
    """Every matrix in eight bits with a scale per output.

    Activations have a scale per token, or fixed scales calibrated on training batches. With `qat` the model is trained
    with rounding in every forward pass and straight-through gradients.
    """

    name: ClassVar[str] = "int8"
    help: ClassVar[str] = "Quantise weights and activations to 8 bits"
    options: ClassVar[tuple[str, ...]] = ("static", "qat")
    static: bool = Field(False, description="fixed activation scales, calibrated on training batches, instead of "
                                            "one per token")
    qat: bool = Field(False, description="quantisation-aware training")
    batches: int = Field(16, ge=1, description="training batches for calibrating fixed scales")

    @property
    def suffix(self) -> str:
        """`int8`, and its options."""
        return "int8" + "-static" * self.static + "-qat" * self.qat

    @property
    def trains(self) -> Trains:
        """For `qat` only."""
        return "always" if self.qat else "never"

    @property
    def settable(self) -> tuple[str, ...]:
        """Only fixed scales need batches."""
        return ("batches",) if self.static else ()

    def apply(self, context: CompressionContext) -> Transformer:
        """Round the model; train it first with `qat`."""
        scales = self._fixed_scales(context) if self.static else {}
        model = context.model
        if self.qat:
            here = {name: scale.to(context.device) for name, scale in scales.items()}
            axes = {name: place.product.inputs for name, place in matrices(context.model).items()}
            model = context.train(context.model, change=lambda name, weight: Weight.of(
                Int8Matrix(*to_int8(weight, axes[name]), here.get(name), axis=axes[name])))
        quantised = quantise(model, STATIC if self.static else DYNAMIC)
        for name, scale in scales.items():
            quantised.input_scales(name).copy_(scale)
        return quantised

    def summary(self, before: Transformer, after: Transformer) -> dict[str, Any]:
        """How inputs are rounded, and whether it was trained for it."""
        fixed = {"activations": "static", "batches": self.batches} if self.static else {"activations": "dynamic"}
        return {**fixed, "qat": self.qat}

    def _fixed_scales(self, context: CompressionContext) -> dict[str, Tensor]:
        """Calibrated on the original model, so that a resumed training has the same ones."""
        quantised: Quantised = quantise(context.model, STATIC).to(context.device)
        with enough_memory("calibration", less_memory(context.recipe)):
            calibrate(quantised, context.batches(self.batches))
        return {name: quantised.input_scales(name).cpu() for name in quantised.inputs}
