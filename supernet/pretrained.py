"""A plain model in a folder of its own, which needs no supernet, space or run to be loaded again.

`quantisation.json` is there where the weights are kept otherwise than one float32 a number, and says how.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from pydantic import ValidationError
from torch import Tensor

from search_spaces.errors import InputError
from search_spaces.loader import load_architecture
from supernet import sparse
from supernet.checkpoint import load_tensors, save_tensors
from supernet.matrices import matrices
from supernet.quantised import Quantisation, Quantised
from supernet.transformer import Transformer
from supernet.writing import whole

ARCHITECTURE, WEIGHTS, QUANTISATION = "architecture.json", "model.safetensors", "quantisation.json"
REMEDY = "extract it again, or take the folder from where it came"


def save_model(model: Transformer, folder: Path) -> None:
    """Write a model's architecture and weights into a folder that exists, each file whole or not at all."""
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
    """What is written of a model: how its weights are kept, and the tensors; matrices with many zeros without them."""
    how, tensors = model.how if isinstance(model, Quantised) else Quantisation(), model.state_dict()
    names = tuple(name for name in matrices(model) if sparse.is_sparse(tensors[name]))
    return how.model_copy(update={"sparse": names}), sparse.pack(tensors, names)


def load_model(folder: Path, dropout: float = 0.0) -> Transformer:
    """The model of a folder, on the CPU and in eval mode.

    Raises:
        InputError: a file is missing, cut short, or does not hold what the architecture needs.
    """
    if not (folder / ARCHITECTURE).is_file():
        raise InputError(str(folder), f"holds no {ARCHITECTURE}; " + (REMEDY if folder.is_dir() else "is it a folder?"))
    arch, how, tensors = load_architecture(folder), _read(folder / QUANTISATION), load_tensors(folder / WEIGHTS, REMEDY)
    with torch.device("meta"):
        model = (Transformer(arch, dropout=dropout) if how.scheme == "fp32" else
                 Quantised(arch, how.model_copy(update={"sparse": ()}), dropout=dropout))
    model.to_empty(device="cpu")  # which computes the tables that are not stored
    wanted = model.state_dict()
    tensors = _unpacked(tensors, how, wanted, folder)
    difference = _difference(wanted, tensors)
    if difference:
        raise InputError(str(folder / WEIGHTS), f"does not fit {ARCHITECTURE}: {difference}; {REMEDY}")
    damaged = next((name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())), None)
    if damaged is not None:
        raise InputError(str(folder / WEIGHTS), f"is damaged: {damaged} holds numbers that are not finite; {REMEDY}")
    model.load_state_dict(tensors, assign=True)
    return model.eval()


def _read(path: Path) -> Quantisation:
    """How the weights of a folder are kept. Raises InputError for a damaged file."""
    try:
        return Quantisation.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return Quantisation()
    except OSError as error:
        raise InputError(str(path), f"cannot be read ({error.strerror}); {REMEDY}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(str(path), f"is damaged ({f'{where}: ' if where else ''}{first['msg']}); {REMEDY}") from None


def _unpacked(tensors: dict[str, Tensor], how: Quantisation, wanted: Mapping[str, Tensor],
              folder: Path) -> dict[str, Tensor]:
    """The tensors, those without their zeros complete again. Raises InputError where they are damaged."""
    try:
        return sparse.unpack(tensors, {name: tuple(wanted[name].shape) for name in how.sparse})
    except (KeyError, ValueError) as error:
        says = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(str(folder / WEIGHTS), f"does not fit {QUANTISATION}: {says}; {REMEDY}") from None


def _difference(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> str:
    """The first difference between what a model needs and what a file holds; empty where there is none.

    A model that was trained in double precision has all its numbers so.
    """
    double = any(tensor.dtype == torch.float64 for tensor in found.values())
    for name, need in wanted.items():
        if name not in found:
            return f"{name} is missing"
        have, kind = found[name], torch.float64 if double and need.dtype == torch.float32 else need.dtype
        if have.shape != need.shape:
            return f"{name} has the shape {list(have.shape)} instead of {list(need.shape)}"
        if have.dtype != kind:
            return f"{name} has numbers of the type {have.dtype} instead of {kind}"
    return next((f"{name} belongs to no part of it" for name in found if name not in wanted), "")
