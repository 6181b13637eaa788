"""Plain models with int8 or int4 matrices, in memory and on disk."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from search_spaces.architecture import Architecture
from search_spaces.errors import InputError
from supernet.compression.matrices import Bound, Matrix, Weight, filled, inside, matrices, plain_model
from supernet.compression.rounding import Int4Matrix, Int8Matrix, Watch, to_int4, to_int8
from supernet.declared import Product
from supernet.parts import UnitParts
from supernet.transformer import Transformer


class Quantisation(BaseModel):
    """How the weights of a folder are stored: the content of `quantisation.json`.

    Args:
        scheme: of the matrices; everything else is in full precision. `fp32` leaves them unchanged.
        activations: for int8, how activations are quantised: with one scale per token, or a fixed one.
        group: for int4, the number of inputs that share a scale.
        sparse: the tensors kept as a bit for every number and the numbers that are not 0.
        codebooks: the tensors kept as codes and codebooks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    scheme: Literal["fp32", "int8", "int4"] = "fp32"
    activations: Literal["dynamic", "static"] | None = None
    group: Annotated[int, Field(ge=1)] | None = None
    sparse: tuple[str, ...] = ()
    codebooks: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _complete(self) -> Quantisation:
        for name, scheme in (("activations", "int8"), ("group", "int4")):
            if (getattr(self, name) is None) == (self.scheme == scheme):
                raise ValueError(f"{name} is used by the scheme {scheme} only")
        return self


DYNAMIC, STATIC = (Quantisation(scheme="int8", activations=how) for how in ("dynamic", "static"))


class Quantised(Transformer):
    """A plain model that stores its matrices in few bits.

    It runs, generates and moves like any other, but cannot be trained.

    A matrix `weight` is integers under the same name, with what they need beside it: `weight_scale`, for int4
    `weight_zero`, for static int8 `weight_inputs`.
    """

    def __init__(self, arch: Architecture, how: Quantisation, *, dropout: float = 0.0) -> None:
        super().__init__(arch, dropout=dropout)
        self.how = how
        self.inputs: dict[str, int] = {}
        self.products: dict[str, Product] = {}
        self.watch: dict[str, Watch] = {}
        for name, place in matrices(self).items():
            weight = place.owner.get_parameter(place.name)
            self.inputs[name], self.products[name] = weight.shape[place.product.inputs], place.product
            delattr(place.owner, place.name)
            for part, tensor in _stored(weight, how, place.product).items():
                place.owner.register_buffer(f"{place.name}{part}", tensor)

    def train(self, mode: bool = True) -> Quantised:
        """Only eval mode is allowed; raises InputError otherwise, because integers have no gradient."""
        if mode:
            raise InputError("model", f"is {self.how.scheme} and cannot be trained; train the model it was made from")
        return super().train(mode)

    def parts(self) -> UnitParts:
        """Its modules with quantised matrices."""
        return Bound(self, self._weights)

    def matrix(self, name: str) -> Matrix:
        """One of its matrices."""
        axis = self.products[name].inputs
        if self.how.scheme == "int8":
            inputs = self.input_scales(name) if self.how.activations == "static" else None
            return Int8Matrix(self.get_buffer(name), self.get_buffer(f"{name}_scale"), inputs, self.watch.get(name),
                              axis)
        return Int4Matrix(self.get_buffer(name), self.get_buffer(f"{name}_scale"), self.get_buffer(f"{name}_zero"),
                          self.inputs[name], self.how.group or 1, axis)

    def input_scales(self, name: str) -> Tensor:
        """For a static model: the fixed input scales of a matrix, used forward and transposed."""
        return self.get_buffer(f"{name}_inputs")

    def _weights(self, path: str) -> dict[str, Tensor]:
        return {name: Weight.of(self.matrix(f"{path}.{name}")) for name in inside(path, self.products)}


ENDINGS = ("", "_scale", "_zero", "_inputs")
"""Suffixes of the tensors stored for a matrix."""


def _stored(weight: Tensor, how: Quantisation, product: Product) -> dict[str, Tensor]:
    """The tensors stored for a matrix, by suffix."""
    if how.scheme == "int8":
        q, scale = to_int8(weight.detach(), product.inputs)
        stored = {"": q.to(torch.int8), "_scale": scale}
        return {**stored, "_inputs": scale.new_zeros(2)} if how.activations == "static" else stored
    return dict(zip(("", "_scale", "_zero"), to_int4(weight.detach(), how.group or 1, product.inputs)))


def quantise(model: Transformer, how: Quantisation) -> Quantised:
    """A quantised model in eval mode; static int8 still needs calibration.

    Raises:
        InputError: the model has been quantised before, or a weight is not finite.
    """
    if isinstance(model, Quantised):
        raise InputError("model", f"is already {model.how.scheme}; quantise the model it was made from")
    tensors = {name: tensor.float() if tensor.is_floating_point() else tensor
               for name, tensor in model.state_dict().items()}
    for name in (places := matrices(model)):
        if not bool(tensors[name].isfinite().all()):
            raise InputError(name, "contains values that are not finite and cannot be quantised")
    with torch.device("meta"):
        quantised = Quantised(model.arch, how)
    for name, place in places.items():
        tensors |= {name + part: tensor for part, tensor in _stored(tensors[name], how, place.product).items()}
    return filled(quantised, tensors)


def dequantised(model: Transformer) -> Transformer:
    """The plain float32 model with the values of a quantised one; any other model unchanged."""
    if not isinstance(model, Quantised):
        return model
    with torch.no_grad():
        values = {name: model.matrix(name).values() for name in matrices(model)}
    kept = {f"{name}{ending}" for name in values for ending in ENDINGS}
    others = {name: tensor for name, tensor in model.state_dict().items() if name not in kept}
    return plain_model(model.arch, {**others, **values})
