"""Plain models in folders, which can be loaded without a supernet, space or run.

`quantisation.json` exists if the weights are not stored as float32, and says how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from search_spaces.errors import InputError
from search_spaces.files import ARCHITECTURE
from search_spaces.files.loader import load_architecture
from search_spaces.files.reading import checked, read_json
from search_spaces.files.writing import whole
from supernet.compression import codebooks, sparse
from supernet.compression.quantised import Quantisation, Quantised
from supernet.declared import declared_matrices
from supernet.train.checkpoint import load_tensors, save_tensors
from supernet.transformer import Transformer

WEIGHTS, QUANTISATION = "model.safetensors", "quantisation.json"


class Packing(NamedTuple):
    """A lossless compact storage format of tensors.

    Args:
        name: the field of `Quantisation` that lists the packed tensors.
        fits: whether packing a tensor saves space.
        pack: packs the named tensors.
        unpack: the inverse, with their shapes; raises ValueError or KeyError where they are damaged.
    """

    name: str
    fits: Callable[[Tensor], bool]
    pack: Callable[[Mapping[str, Tensor], Iterable[str]], dict[str, Tensor]]
    unpack: Callable[[Mapping[str, Tensor], Mapping[str, tuple[int, ...]]], dict[str, Tensor]]


PACKINGS = (Packing("sparse", sparse.is_sparse, sparse.pack, sparse.unpack),
            Packing("codebooks", codebooks.repeats, codebooks.pack, codebooks.unpack))
"""In the order they are tried."""
REMEDY = "extract the subnet again, or copy its folder again"


def save_model(model: Transformer, folder: Path) -> None:
    """Write a model's architecture and weights into an existing folder, each file atomically."""
    how, tensors = stored(model)
    with whole(folder / WEIGHTS) as temporary:
        save_tensors(tensors, temporary)
    if how == Quantisation():
        (folder / QUANTISATION).unlink(missing_ok=True)
    else:
        with whole(folder / QUANTISATION) as temporary:
            temporary.write_text(how.model_dump_json(exclude_none=True, indent=2) + "\n", "utf-8")
    with whole(folder / ARCHITECTURE) as temporary:
        temporary.write_text(model.arch.to_json() + "\n", "utf-8")


def stored(model: Transformer) -> tuple[Quantisation, dict[str, Tensor]]:
    """The stored form of a model: its quantisation, and the tensors, each matrix in its smallest format."""
    how, tensors = model.how if isinstance(model, Quantised) else Quantisation(), model.state_dict()
    left, chosen = list(declared_matrices(model)), {}
    for packing in PACKINGS:
        chosen[packing.name] = tuple(name for name in left if packing.fits(tensors[name]))
        tensors = packing.pack(tensors, chosen[packing.name])
        left = [name for name in left if name not in chosen[packing.name]]
    return how.model_copy(update=chosen), tensors


def load_model(folder: Path, dropout: float = 0.0) -> Transformer:
    """The model of a folder, on the CPU and in eval mode.

    Raises:
        InputError: a file is missing, truncated, or does not fit the architecture.
    """
    if not (folder / ARCHITECTURE).is_file():
        raise InputError(str(folder), f"contains no {ARCHITECTURE}; {REMEDY}" if folder.is_dir() else "is not a folder")
    arch, how, tensors = load_architecture(folder), _read(folder / QUANTISATION), load_tensors(folder / WEIGHTS, REMEDY)
    with torch.device("meta"):
        model = (Transformer(arch, dropout=dropout) if how.scheme == "fp32" else
                 Quantised(arch, how.model_copy(update={packing.name: () for packing in PACKINGS}), dropout=dropout))
    model.to_empty(device="cpu")  # which computes the tables that are not stored
    wanted = model.state_dict()
    tensors = _unpacked(tensors, how, wanted, folder)
    difference = _difference(wanted, tensors)
    if difference:
        raise InputError(str(folder / WEIGHTS), f"does not fit {ARCHITECTURE}: {difference}", REMEDY)
    damaged = next((name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())), None)
    if damaged is not None:
        raise InputError(str(folder / WEIGHTS), f"is damaged: {damaged} contains numbers that are not finite", REMEDY)
    model.load_state_dict(tensors, assign=True)
    return model.eval()


def _read(path: Path) -> Quantisation:
    """How the weights of a folder are stored. Raises InputError for a damaged file."""
    if not path.exists():
        return Quantisation()
    return checked(Quantisation, read_json(path, REMEDY), str(path), REMEDY)


def _unpacked(tensors: dict[str, Tensor], how: Quantisation, wanted: Mapping[str, Tensor],
              folder: Path) -> dict[str, Tensor]:
    """The tensors with packed ones restored. Raises InputError if they are damaged."""
    try:
        for packing in PACKINGS:
            tensors = packing.unpack(tensors, {name: tuple(wanted[name].shape) for name in getattr(how, packing.name)})
        return tensors
    except (KeyError, ValueError) as error:
        reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(str(folder / WEIGHTS), f"does not fit {QUANTISATION}: {reason}", REMEDY) from None


def _difference(wanted: Mapping[str, Tensor], actual: Mapping[str, Tensor]) -> str:
    """The first difference between what a model needs and what a file holds; empty if there is none.

    A model that was trained in double precision has all its numbers so.
    """
    double = any(tensor.dtype == torch.float64 for tensor in actual.values())
    for name, need in wanted.items():
        if name not in actual:
            return f"{name} is missing"
        have, kind = actual[name], torch.float64 if double and need.dtype == torch.float32 else need.dtype
        if have.shape != need.shape:
            return f"{name} has the shape {list(have.shape)} instead of {list(need.shape)}"
        if have.dtype != kind:
            return f"{name} has the type {have.dtype} instead of {kind}"
    return next((f"{name} is not a tensor of this architecture" for name in actual if name not in wanted), "")
