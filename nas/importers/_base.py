"""What an importer declares, and how its tensors become ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nas.importers._config import PretrainedSettings
from search_spaces import Architecture

HEADS = ("lm", "features", "pooler", "masked_lm", "classifier")
"""Outputs of an imported model: token logits, hidden states, the pooled state, masked tokens, class logits."""


class NotExpressibleError(Exception):
    """A stock class cannot hold a model; the message says why."""


@dataclass(frozen=True)
class Same:
    """A tensor as it is."""

    def read(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """Ours from theirs."""
        return (tensor,)

    def write(self, tensors: Sequence[Tensor]) -> Tensor:
        """Theirs from ours."""
        return tensors[0]


@dataclass(frozen=True)
class Transposed(Same):
    """GPT-2 stores matrices as (in, out), and queries, keys and values in one; `parts` is how many."""

    parts: int = 1

    def read(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """Ours from theirs."""
        return tuple(part.t() if part.ndim == 2 else part for part in tensor.chunk(self.parts, dim=-1))

    def write(self, tensors: Sequence[Tensor]) -> Tensor:
        """Theirs from ours."""
        return torch.cat([part.t() if part.ndim == 2 else part for part in tensors], dim=-1)


@dataclass(frozen=True)
class Rows(Same):
    """Theirs has `first` rows that are never read, and may have more than `count` after them."""

    first: int
    count: int

    def read(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """Ours from theirs."""
        return (tensor[self.first:self.first + self.count],)

    def write(self, tensors: Sequence[Tensor]) -> Tensor:
        """Theirs from ours; rows that are never read are zeros."""
        return torch.cat([tensors[0].new_zeros(self.first, *tensors[0].shape[1:]), tensors[0]])


@dataclass(frozen=True)
class Scaled(Same):
    """Ours is theirs times a factor."""

    factor: float

    def read(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """Ours from theirs."""
        return (tensor * self.factor,)

    def write(self, tensors: Sequence[Tensor]) -> Tensor:
        """Theirs from ours."""
        return tensors[0] / self.factor


@dataclass(frozen=True)
class Flat(Same):
    """Theirs is one row of a matrix."""

    def read(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """Ours from theirs."""
        return (tensor.flatten(),)

    def write(self, tensors: Sequence[Tensor]) -> Tensor:
        """Theirs from ours."""
        return tensors[0][None]


@dataclass(frozen=True)
class Copies(Same):
    """Theirs is one tensor, of which several of our layers each hold a copy."""

    n: int

    def read(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """Ours from theirs."""
        return (tensor,) * self.n

    def write(self, tensors: Sequence[Tensor]) -> Tensor:
        """Theirs from ours. Raises NotExpressibleError where the layers differ."""
        if not all(torch.equal(tensors[0], other) for other in tensors):
            raise NotExpressibleError("the layers have different relative positions")
        return tensors[0]


@dataclass(frozen=True)
class Link:
    """One tensor of a checkpoint and the tensors of ours that hold the same."""

    theirs: str
    ours: tuple[str, ...]
    change: Same = field(default_factory=Same)


@dataclass(frozen=True)
class ImportWishes:
    """What the user requests of a checkpoint.

    Args:
        head: one of `HEADS`; None for that of the checkpoint's class.
        context: the longest sequence; None for the checkpoint's own.
    """

    head: str | None = None
    context: int | None = None


@dataclass(frozen=True)
class StockModel:
    """A model that a class of transformers holds.

    Args:
        cls: the name of the class in transformers.
        ignored: prefixes of tensors that it has and ours does not need.
    """

    arch: Architecture
    cls: str
    links: tuple[Link, ...]
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Importer:
    """A family of pretrained models.

    Args:
        name: of the family.
        model_types: by the `model_type` of a config, its display name.
        read: a config, the names of the checkpoint's tensors and the wishes -> the model. Raises InputError that names
            an unsupported field.
        write: an architecture and a `model_type` -> a config whose `read` may give the architecture again; the caller
            compares them. May raise NotExpressibleError or KeyError for architectures of another kind.
        zeros: by the names of tensors that mean nothing where all are zero, their shape in a model.
        help: one line for the reference.
        private_fields: fields of a written config that only `read` knows; exports leave them out.
        dropout: the default dropout rate of fine-tuning; 0 for families that are trained without dropout.
    """

    name: str
    model_types: Mapping[str, str]
    read: Callable[[PretrainedSettings, frozenset[str], ImportWishes], StockModel]
    write: Callable[[Architecture, str], dict[str, Any]]
    zeros: Mapping[str, Callable[[Architecture], tuple[int, ...]]] = field(default_factory=dict)
    help: str = ""
    private_fields: tuple[str, ...] = ()
    dropout: float = 0.1


def same(ours: str, theirs: str, *names: str) -> list[Link]:
    """Links of tensors that have the same last names in two modules."""
    return [Link(f"{theirs}.{name}", (f"{ours}.{name}",)) for name in names]
