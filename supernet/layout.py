"""Layout of a module's tensors in the shared store. A module declares only differences from a plain prefix.

A module that needs it has a method `layouts()` giving `{tensor name: Layout}` for its own tensors
and those of the layers it holds; everything else is stored whole and sliced from the front.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from search_spaces.errors import InputError

OWN = "own"
"""The bank of matrices that are stored in addition to a core."""
Keep = str | int
"""`prefix`, `center`, `suffix`, or where a slice starts."""


@dataclass(frozen=True)
class Core:
    """The product of two other stored tensors, added to what is stored of a matrix.

    A full matrix and a factorised one that do the same work then share what they learn: the full one is the product
    of the factors, in their largest stored rank, plus a matrix of its own.

    Args:
        left: the name of the factor (rows, rank) in the same unit.
        right: the name of the factor (columns, rank).
        before: how the matrix is stored where the space has no factors, and in weights of earlier versions.
        transposed: whether the right factor is stored as (rank, columns).
        scaled: whether rows are multiplied by the root of their width when they are read, so that the product has
            to be scaled to mean the same at the full width.
    """

    left: str
    right: str
    before: Layout
    transposed: bool = False
    scaled: bool = False


@dataclass(frozen=True)
class Layout:
    """Layout of one tensor in the store.

    Args:
        shape: the finer shape the store keeps, where elastic numbers multiply into one axis
            (heads x head size); the plain tensor is its reshape.
        keep: per axis of that shape which end a slice keeps, `prefix`, `center` or `suffix`, or the index it
            starts at, where places in the store mean something (channels that are split between branches).
        bank: a name for separate values: tensors of different banks never overlap.
        parts: (axis, sizes): the axis consists of several segments, each stored separately.
        inputs: axes summed over when the tensor is applied; their product is the fan-in.
        init: `auto` (bias 0, one-dimensional weight 1, matrices by fan-in), `zeros`, `ones`, `orthogonal`
            (rows of the last two axes, as long as those of normal numbers), or a standard deviation.
        gain: factor on the standard deviation computed from the fan-in.
        core: a product of other tensors that the supernet adds to this one.
    """

    shape: tuple[int, ...] | None = None
    keep: tuple[Keep, ...] | None = None
    bank: str = ""
    parts: tuple[int, tuple[int, ...]] | None = None
    inputs: tuple[int, ...] = (-1,)
    init: str | float = "auto"
    gain: float = 1.0
    core: Core | None = None


@dataclass(frozen=True)
class Piece:
    """One stored tensor that a plain tensor is read from.

    Args:
        name: name in the store, relative to the unit's path.
        shape: the shape this unit needs of it.
    """

    name: str
    shape: tuple[int, ...]
    keep: tuple[Keep, ...]

    @property
    def extent(self) -> tuple[int, ...]:
        """The minimum size of the stored tensor."""
        return tuple(need + (keep if isinstance(keep, int) else 0) for need, keep in zip(self.shape, self.keep))

    def window(self, stored: tuple[int, ...]) -> tuple[slice, ...]:
        """The slice of a stored tensor of that shape."""
        return tuple(_window(have, need, keep) for have, need, keep in zip(stored, self.shape, self.keep))


def _window(have: int, need: int, keep: Keep) -> slice:
    start = keep if isinstance(keep, int) else {"prefix": 0, "center": (have - need) // 2, "suffix": have - need}[keep]
    return slice(start, start + need)


@dataclass(frozen=True)
class TensorEntry:
    """A tensor of a plain module: its name and shape there, and where it is stored."""

    name: str
    shape: tuple[int, ...]
    layout: Layout
    pieces: tuple[Piece, ...]
    is_buffer: bool
    dtype: torch.dtype

    @property
    def numel(self) -> int:
        """Numbers in the plain tensor."""
        return math.prod(self.shape)

    def without_core(self) -> TensorEntry:
        """The same tensor where the store has no core for it."""
        if self.layout.core is None:
            return self
        layout = self.layout.core.before
        return replace(self, layout=layout, pieces=tuple(_pieces(self.name, self.shape, layout)))


def entries(module: nn.Module) -> tuple[TensorEntry, ...]:
    """Every learned or random tensor of a plain module with its place in the store.

    Buffers that are not persistent are derived tables; they are recomputed, not stored.
    """
    layouts = declared_layouts(module)
    names: list[tuple[str, Tensor, bool]] = [(name, tensor, False) for name, tensor in module.named_parameters()]
    kept = module.state_dict().keys()
    names += [(name, tensor, True) for name, tensor in module.named_buffers() if name in kept]
    return tuple(
        TensorEntry(name, tuple(tensor.shape), layout, tuple(_pieces(name, tuple(tensor.shape), layout)), is_buffer,
              tensor.dtype)
        for name, tensor, is_buffer in names
        for layout in (layouts.get(name, Layout()),)
    )


def declared_layouts(module: nn.Module) -> dict[str, Layout]:
    """Full name -> Layout of every tensor that a module inside declares; outer modules take precedence."""
    layouts: dict[str, Layout] = {}
    for prefix, inner in module.named_modules():
        declare = getattr(inner, "layouts", None)
        if callable(declare):
            dot = prefix + "." if prefix else ""
            layouts = {dot + name: layout for name, layout in declare().items()} | layouts
    return layouts


def _pieces(name: str, plain_shape: tuple[int, ...], layout: Layout) -> Iterator[Piece]:
    shape = layout.shape or plain_shape
    keep: tuple[Keep, ...] = layout.keep or ("prefix",) * len(shape)
    stored = f"{name}@{layout.bank}" if layout.bank else name
    if layout.parts is None:
        yield Piece(stored, shape, keep)
        return
    axis, sizes = layout.parts
    for i, size in enumerate(sizes):
        yield Piece(f"{stored}#{i}", (*shape[:axis], size, *shape[axis + 1 :]), keep)


def initialise(tensor: Tensor, entry: TensorEntry, generator: torch.Generator | None, pieces: int = 1) -> None:
    """Initialise a tensor.

    Args:
        tensor: the plain tensor in its finer shape, or one stored piece of the largest shape.
        pieces: how many such pieces make up the plain tensor; they share its fan-in.

    Raises:
        InputError: the layout has no initialisation, and name and shape do not determine one.
    """
    layout = entry.layout
    how = _automatic(entry) if layout.init == "auto" else layout.init
    with torch.no_grad():
        if how in ("zeros", "ones"):
            tensor.fill_(0 if how == "zeros" else 1)
        elif how == "orthogonal":
            tensor.copy_(_orthogonal(tensor, generator))
        elif how == "fan_in":
            fan_in = pieces * math.prod(tensor.shape[axis] for axis in layout.inputs)
            tensor.normal_(0.0, layout.gain * fan_in**-0.5, generator=generator)
        else:
            tensor.normal_(0.0, float(how), generator=generator)


def _orthogonal(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Rows that point in random directions, orthogonal within each block of as many rows as there are columns."""
    *outer, rows, columns = like.shape
    blocks = -(-rows // columns)
    normal = torch.randn(*outer, blocks, columns, columns, generator=generator, dtype=like.dtype,
                         device=like.device)
    q, r = torch.linalg.qr(normal)
    q = q * r.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]  # without it the signs follow from the algorithm
    directions = q.transpose(-2, -1).flatten(-3, -2)[..., :rows, :]
    lengths = torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device).norm(dim=-1)
    return directions * lengths[..., None]


def _automatic(entry: TensorEntry) -> str:
    """Biases start at 0, one-dimensional weights at 1, matrices by their fan-in."""
    last = entry.name.rsplit(".", 1)[-1]
    if last == "bias":
        return "zeros"
    if len(entry.shape) > 1 and entry.dtype.is_floating_point:
        return "fan_in"
    if last == "weight" and len(entry.shape) == 1:
        return "ones"
    raise InputError(entry.name, f"no initialisation for this tensor of shape {entry.shape} and type {entry.dtype}"
                                 "; layouts() of its module must set init to zeros, ones or a standard deviation")
