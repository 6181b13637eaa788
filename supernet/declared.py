"""Declarations of a module's tensors: which are matrices, how they multiply, and which contain attention heads.

`nn.Linear` and `nn.Embedding` are known, and tensors with one axis (biases, norms, scalars) are not matrices. Any other
parameter must be declared by a method `matrices()` of the module that contains it, or of an outer module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from torch import nn

from search_spaces.errors import InputError


class Product(Enum):
    """How a matrix multiplies; the value is the axis that its product sums over."""

    LINEAR = ("(out, in): F.linear(x, w)", 1)
    MATMUL = ("(in, out): x @ w", 0)
    GROUPED = ("(groups, in, out): torch.bmm or baddbmm, group by group", 1)
    TABLE = ("(rows, width): F.embedding(ids, w)", 1)
    NONE = ("not a matrix: quantising and pruning leave it unchanged", -1)

    @property
    def inputs(self) -> int:
        """The axis that is summed over."""
        return self.value[1]


_KNOWN: dict[type[nn.Module], Product] = {nn.Linear: Product.LINEAR, nn.Embedding: Product.TABLE}


@dataclass(frozen=True)
class MatrixPlace:
    """Location of a matrix: its module and its name there."""

    owner: nn.Module
    name: str
    product: Product


def declared_matrices(module: nn.Module) -> dict[str, MatrixPlace]:
    """Every matrix inside a module by its full name, in the order of the modules."""
    products = _products(module)
    matrices = {}
    for prefix, inner in module.named_modules():
        for name in (*inner._parameters, *inner._buffers):
            full = f"{prefix}.{name}" if prefix else name
            product = products.get(full, Product.NONE)
            if product is not Product.NONE and getattr(inner, name) is not None:
                matrices[full] = MatrixPlace(inner, name, product)
    return matrices


def check_declared(module: nn.Module, kind: str) -> None:
    """Raises InputError that names the kind and the first parameter that is not declared."""
    products = _products(module)
    for name, parameter in module.named_parameters():
        if parameter.ndim > 1 and name not in products:
            raise InputError(f"block {kind}", (
                f"the parameter {name} of shape {tuple(parameter.shape)} is not declared, so its use is unknown; its "
                f"module needs a method matrices() that returns {{{name.rpartition('.')[2]!r}: "
                "Product.LINEAR}, or another Product (see supernet/blocks/README.md)"))


def _products(module: nn.Module) -> dict[str, Product]:
    """Full name -> Product; declarations take precedence over the defaults, and outer modules over inner ones."""
    products: dict[str, Product] = {}
    for prefix, inner in module.named_modules():
        for name, product in _own(inner):
            products.setdefault(f"{prefix}.{name}" if prefix else name, product)
    return products


def _own(module: nn.Module) -> Iterator[tuple[str, Product]]:
    declare = getattr(module, "matrices", None)
    if callable(declare):
        yield from declare().items()
    yield from (("weight", product) for known, product in _KNOWN.items() if isinstance(module, known))


@dataclass(frozen=True)
class AttentionHeads:
    """The prunable heads of a block, as returned by its method `heads()`.

    A kind whose module has that method has the dims `n_heads` and `n_kv_heads`, or `n_kv_heads` and `queries`.

    Args:
        tensors: by name, the axis along which the heads of a tensor lie one after the other, and whether they are
            query heads (`n_heads`) or key and value heads (`n_kv_heads`).
        output: the name of the linear map that reads the outputs of the query heads.
        grouped: whether the kind counts the queries of each key/value head instead of all query heads.
    """

    n_heads: int
    n_kv_heads: int
    head_dim: int
    tensors: Mapping[str, tuple[int, bool]]
    output: str
    grouped: bool = False

    def inside(self, name: str, grouped: bool = False) -> AttentionHeads:
        """The same, with names relative to an outer module."""
        return AttentionHeads(self.n_heads, self.n_kv_heads, self.head_dim,
                              {f"{name}.{tensor}": how for tensor, how in self.tensors.items()},
                              f"{name}.{self.output}", grouped)

    def dims(self, n_heads: int, n_kv_heads: int) -> dict[str, int]:
        """The dims of a block with so many heads."""
        return {"n_kv_heads": n_kv_heads,
                **({"queries": n_heads // n_kv_heads} if self.grouped else {"n_heads": n_heads})}
