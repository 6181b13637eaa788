"""A plain model in a folder of its own, which needs no supernet, space or run to be loaded again."""

from __future__ import annotations

from pathlib import Path

import torch

from search_spaces.errors import InputError
from search_spaces.loader import load_architecture
from supernet.checkpoint import load_tensors, save_tensors
from supernet.transformer import Transformer
from supernet.writing import whole

ARCHITECTURE, WEIGHTS = "architecture.json", "model.safetensors"
REMEDY = "extract it again, or take the folder from where it came"


def save_model(model: Transformer, folder: Path) -> None:
    """Write a model's architecture and weights into a folder that exists, each file whole or not at all."""
    with whole(folder / WEIGHTS) as temporary:
        save_tensors(model.state_dict(), temporary)
    with whole(folder / ARCHITECTURE) as temporary:
        temporary.write_text(model.arch.to_json() + "\n", "utf-8")


def load_model(folder: Path, dropout: float = 0.0) -> Transformer:
    """The model of a folder, on the CPU and in eval mode.

    Raises:
        InputError: a file is missing, cut short, or does not hold what the architecture needs.
    """
    if not (folder / ARCHITECTURE).is_file():
        raise InputError(str(folder), f"holds no {ARCHITECTURE}; " + (REMEDY if folder.is_dir() else "is it a folder?"))
    arch, tensors = load_architecture(folder), load_tensors(folder / WEIGHTS, REMEDY)
    with torch.device("meta"):
        model = Transformer(arch, dropout=dropout)
    model.to_empty(device="cpu")  # which computes the tables that are not stored
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if wanted != found:
        raise InputError(str(folder / WEIGHTS), f"does not fit {ARCHITECTURE}: {_difference(wanted, found)}; {REMEDY}")
    model.load_state_dict(tensors, assign=True)
    return model.eval()


def _difference(wanted: dict[str, tuple[int, ...]], found: dict[str, tuple[int, ...]]) -> str:
    """The first difference between what a model needs and what a file holds."""
    for name, shape in wanted.items():
        if name not in found:
            return f"{name} is missing"
        if found[name] != shape:
            return f"{name} has the shape {list(found[name])} instead of {list(shape)}"
    return f"{next(name for name in found if name not in wanted)} belongs to no part of it"
