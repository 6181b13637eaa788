"""A folder of pretrained weights: config.json, safetensors (one file or several), tokenizer.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from search_spaces import InputError
from search_spaces.errors import Fault, shown
from search_spaces.files.reading import read_table, read_text

CONFIG, WEIGHTS, INDEX, TOKENIZER = "config.json", "model.safetensors", "model.safetensors.index.json", "tokenizer.json"
PICKLED = ("pytorch_model*.bin", "*.bin", "*.pt", "*.pth", "*.ckpt")
_OLD = {"gamma": "weight", "beta": "bias"}


@dataclass(frozen=True)
class Checkpoint:
    """A folder of pretrained weights, opened.

    Args:
        tensors: by the name that a model has for a tensor, its file and its name there.
    """

    folder: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, tuple[Path, str]]

    @classmethod
    def open(cls, folder: Path) -> Checkpoint:
        """Read the config and the names of the tensors. Raises InputError."""
        if not folder.is_dir():
            raise InputError(str(folder), "is not a folder; give a folder with config.json and model.safetensors, or "
                                          "the "
                                          "name of a model on the Hugging Face Hub")
        if not (folder / CONFIG).is_file():
            raise InputError(str(folder), f"contains no {CONFIG}, which every pretrained model has")
        config = read_table(folder / CONFIG)
        if config.get("quantization_config"):
            raise InputError(str(folder / CONFIG), [Fault("quantization_config", (
                "quantised weights are not supported; use the model in float32, float16 or bfloat16"))])
        return cls(folder, config, _tensors(folder, config))

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of its tensors."""
        return frozenset(self.tensors)

    def tensor(self, name: str) -> Tensor:
        """A tensor in float32. Raises InputError if the file is damaged or the type is not floating-point."""
        path, there = self.tensors[name]
        try:
            with safe_open(path, framework="pt") as file:
                tensor: Tensor = file.get_tensor(there)
        except (SafetensorError, OSError) as error:
            raise InputError(str(path), f"is damaged ({error}); download it again") from None
        if not tensor.is_floating_point():
            raise InputError(str(path), [Fault(name, f"has the type {tensor.dtype}; supported: floating-point "
                                                     "numbers")])
        tensor = tensor.to(torch.float32)
        if not bool(tensor.isfinite().all()):
            raise InputError(str(path), [Fault(name, "contains numbers that are not finite")])
        return tensor

    def tokenizer_text(self) -> str:
        """The content of tokenizer.json. Raises InputError with the command that writes it."""
        path = self.folder / TOKENIZER
        if not path.is_file():
            name = shown(str(self.folder))
            raise InputError(str(self.folder), (
                f"contains no {TOKENIZER}; write it with: python -c \"from transformers import AutoTokenizer as T; "
                f"T.from_pretrained({name}).save_pretrained({name})\""))
        return read_text(path)

    def optional(self, name: str) -> Mapping[str, Any]:
        """The content of a JSON file that may be missing. Raises InputError if it is damaged."""
        path = self.folder / name
        return read_table(path) if path.is_file() else {}


def _tensors(folder: Path, config: Mapping[str, Any]) -> dict[str, tuple[Path, str]]:
    files = [folder / WEIGHTS]
    listed: set[str] = set()
    if not files[0].is_file():
        if not (folder / INDEX).is_file():
            raise _no_weights(folder, config)
        index = read_table(folder / INDEX).get("weight_map")
        if not isinstance(index, dict) or not all(
                isinstance(name, str) and re.fullmatch(r"[\w.-]+\.safetensors", name) for name in index.values()):
            raise InputError(str(folder / INDEX), [Fault("weight_map", "must be a table of tensors and their files")])
        files, listed = [folder / name for name in sorted(set(index.values()))], set(index)
    tensors: dict[str, tuple[Path, str]] = {}
    for path in files:
        if not path.is_file():
            raise InputError(str(folder), f"{INDEX} names {path.name}, which is missing; download it again")
        try:
            with safe_open(path, framework="pt") as file:
                tensors |= {_today(name): (path, name) for name in file.keys()}  # noqa: SIM118 - no mapping
        except (SafetensorError, OSError) as error:
            raise InputError(str(path), f"is damaged ({error}); download it again") from None
    absent = sorted(listed - {name for _, name in tensors.values()})
    if absent:
        raise InputError(str(folder / INDEX), [Fault(name, "is listed here, but is in none of the files")
                                               for name in absent])
    return tensors


def _today(name: str) -> str:
    """Norms of old checkpoints call their tensors gamma and beta."""
    start, _, last = name.rpartition(".")
    return f"{start}.{_OLD[last]}" if last in _OLD and "norm" in start.lower() else name


def _no_weights(folder: Path, config: Mapping[str, Any]) -> InputError:
    pickled = next((path for pattern in PICKLED for path in sorted(folder.glob(pattern))), None)
    if pickled is None:
        return InputError(str(folder), f"contains no weights: neither {WEIGHTS} nor {INDEX}")
    named = config.get("architectures")
    cls = named[0] if isinstance(named, list) and named and re.fullmatch(r"\w+", str(named[0])) else "AutoModel"
    name = shown(str(folder))
    return InputError(str(pickled), (
        "is a pickle, which can run code when it is read, so it is not opened; if you trust it, convert it with: "
        f"python -c \"from transformers import {cls} as M; M.from_pretrained({name}).save_pretrained({name})\""))
