"""The matrices of a plain model, and how a model runs with replaced ones: masked, rounded or stored in fewer bits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from search_spaces.architecture import Architecture
from search_spaces.units import plan
from supernet.declared import MatrixPlace, check_declared, declared_matrices
from supernet.parts import Modules, PlannedStep, UnitParts
from supernet.transformer import Transformer


def matrices(model: Transformer) -> dict[str, MatrixPlace]:
    """Every matrix of a plain model by its name, as the blocks declare them: see `supernet.declared`.

    Raises:
        InputError: a block has a parameter that is not declared.
    """
    for path, kind in {step.path: step.unit.block.kind for step in plan(model.arch)}.items():
        check_declared(model.get_submodule(path), kind)
    return declared_matrices(model)


class Matrix(ABC):
    """A matrix in another representation, and how products with it are computed."""

    @abstractmethod
    def values(self) -> Tensor:
        """Its values."""

    @abstractmethod
    def rows(self, ids: Tensor) -> Tensor:
        """The values of some rows."""

    def linear(self, x: Tensor) -> Tensor:
        """x (..., in) with a matrix (out, in), summed over `in`."""
        return F.linear(x, self.values())

    def turned(self, x: Tensor) -> Tensor:
        """x (..., a) with a matrix (a, b), summed over `a`: a transposed linear map, or one stored as (in, out)."""
        return x @ self.values()

    def grouped(self, x: Tensor) -> Tensor:
        """x (groups, n, in) with a matrix (groups, in, out), group by group."""
        return torch.bmm(x, self.values())


class Weight(torch.Tensor):
    """Replaces the weight of a module: products and look-ups use its matrix, everything else sees the values."""

    matrix: Matrix

    @classmethod
    def of(cls, matrix: Matrix) -> Weight:
        """The weight of a matrix."""
        weight = torch.empty(0).as_subclass(cls)
        weight.matrix = matrix
        return weight

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        product = _PRODUCTS.get(func)
        if product is not None and args and not isinstance(args[0], Weight):
            return product(*args, **(kwargs or {}))
        return func(*map(_plain, args), **{name: _plain(value) for name, value in (kwargs or {}).items()})


def _plain(value: Any) -> Any:
    """An argument without such weights, also in lists."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value))
    return value.matrix.values() if isinstance(value, Weight) else value


def _linear(input: Tensor, weight: Weight, bias: Tensor | None = None) -> Tensor:
    y = weight.matrix.linear(input)
    return y if bias is None else y + bias


def _matmul(input: Tensor, other: Weight) -> Tensor:
    return other.matrix.turned(input)


def _baddbmm(input: Tensor, batch1: Tensor, batch2: Weight) -> Tensor:
    return input + batch2.matrix.grouped(batch1)


def _embedding(input: Tensor, weight: Weight, *_: Any, **options: Any) -> Tensor:
    return weight.matrix.rows(input)


_PRODUCTS: dict[Any, Callable[..., Tensor]] = {
    F.linear: _linear, torch.matmul: _matmul, Tensor.matmul: _matmul, Tensor.__matmul__: _matmul,
    torch.baddbmm: _baddbmm, F.embedding: _embedding,
}


def inside(path: str, names: Iterable[str]) -> list[str]:
    """The names of tensors below a path, relative to it."""
    return [name.removeprefix(f"{path}.") for name in names if name.startswith(f"{path}.")]


Weights = Callable[[str], Mapping[str, Tensor]]
"""The path of a unit -> replacements of its matrices, by their names in the unit."""


class Bound(Modules):
    """The units of a plain model, run with replaced matrices."""

    def __init__(self, model: nn.Module, weights: Weights) -> None:
        super().__init__(model)
        self.weights = weights

    def call(self, step: PlannedStep, *inputs: Any) -> Any:
        """Run the module at the step's path."""
        module = self.model.get_submodule(step.path)
        return functional_call(module, dict(self.weights(step.path)), inputs, tie_weights=False)

    def tensors(self, step: PlannedStep) -> Mapping[str, Tensor]:
        """The weights of the module at the step's path."""
        return {**super().tensors(step), **self.weights(step.path)}


Change = Callable[[str, Tensor], Tensor]
"""The name of a matrix and its values -> the replacement."""


class Reweighted(Transformer):
    """A plain model whose matrices pass through `change` in every forward pass; names, tensors and training are
    unchanged.

    Args:
        model: the original model, which is not changed.
    """

    def __init__(self, model: Transformer, change: Change, *, dropout: float = 0.0) -> None:
        with torch.device("meta"):
            super().__init__(model.arch, dropout=dropout)
        filled(self, model.state_dict())
        self.names = tuple(matrices(self))
        self.change = change

    def parts(self) -> UnitParts:
        """Its modules on changed matrices."""
        return Bound(self, self._changed)

    def _changed(self, path: str) -> dict[str, Tensor]:
        return {name: self.change(f"{path}.{name}", self.get_parameter(f"{path}.{name}"))
                for name in inside(path, self.names)}


def plain_model(arch: Architecture, tensors: Mapping[str, Tensor]) -> Transformer:
    """The plain model of copies of these tensors, in eval mode."""
    with torch.device("meta"):
        model = Transformer(arch)
    return filled(model, tensors)


Model = TypeVar("Model", bound=Transformer)


def filled(model: Model, tensors: Mapping[str, Tensor]) -> Model:
    """A model that was built on the meta device, filled with copies of these tensors on their device, in eval mode."""
    model.to_empty(device=next(iter(tensors.values())).device)  # which computes the tables that are not stored
    model.load_state_dict({name: tensor.detach().clone() for name, tensor in tensors.items()}, assign=True)
    return model.eval()
