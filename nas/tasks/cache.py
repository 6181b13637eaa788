"""The folder of prepared data: written atomically, and checked when loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from safetensors.numpy import load, save
from tokenizers import Tokenizer

from search_spaces.errors import Fault, InputError, shown
from search_spaces.files.reading import checked, read_bytes, read_table
from search_spaces.files.writing import whole

VERSION = 1
MOST_DATA_BYTES = 2**40
"""Maximum size of encoded data: as large as memory allows."""
INDEX, TOKENIZER, ARRAYS = "data.json", "tokenizer.json", "data.safetensors"
Arrays = dict[str, NDArray[Any]]


class _Index(BaseModel):
    """The fields that are read from `data.json`."""

    options: dict[str, Any]
    files: dict[str, str]
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    fingerprint: str
    vocab_size: int
    scale: tuple[float, float] | None = None
    specials: dict[str, int] = {}


@dataclass(frozen=True)
class Encoded:
    """The stored form of prepared data."""

    tokenizer: Tokenizer
    arrays: Arrays
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    fingerprint: str = ""
    scale: tuple[float, float] | None = None
    specials: Mapping[str, int] = field(default_factory=dict)


def fingerprint(data: Encoded) -> str:
    """The SHA-256 of the data as a model sees them; of the tokeniser's pieces, not of its file, whose format may
    change."""
    seen = [sorted(data.tokenizer.get_vocab().items()), data.labels, *([data.scale] if data.scale else [])]
    digest = hashlib.sha256(json.dumps(seen).encode())
    for name in sorted(data.arrays):
        array = np.ascontiguousarray(data.arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def write(folder: Path, options: Mapping[str, Any], encoded: Encoded) -> None:
    """Write the files; the index comes last, so a folder without one counts as empty.

    Two processes may write at once: they write the same bytes.
    """
    files = {TOKENIZER: encoded.tokenizer.to_str(pretty=True).encode(), ARRAYS: save(encoded.arrays)}
    index = {
        "schema_version": VERSION, "options": dict(options), "labels": encoded.labels, "notes": encoded.notes,
        **({} if encoded.scale is None else {"scale": encoded.scale}),
        **({"specials": dict(encoded.specials)} if encoded.specials else {}),
        "fingerprint": encoded.fingerprint, "vocab_size": encoded.tokenizer.get_vocab_size(),
        "sizes": {name: int(array.shape[0]) for name, array in sorted(encoded.arrays.items())},
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    files[INDEX] = json.dumps(index, indent=2, ensure_ascii=False).encode() + b"\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            with whole(folder / name) as temporary:
                temporary.write_bytes(content)
    except OSError as error:
        raise InputError(str(folder), f"cannot be written: {error.strerror or error}") from None


def read(folder: Path, options: Mapping[str, Any]) -> Encoded | None:
    """The content of the folder; None if nothing was prepared yet.

    Raises:
        InputError: it was prepared with other options, or a file of it is damaged.
    """
    path = folder / INDEX
    if not path.is_file():
        return None
    remedy = f"delete {folder} and run the command again"
    data = read_table(path, remedy)
    if data.get("schema_version") != VERSION:
        message = f"has schema_version {shown(data.get('schema_version'))}; allowed: {VERSION}; delete {folder}"
        raise InputError(str(path), message)
    index = checked(_Index, data, str(path), remedy)
    _check_options(folder, dict(index.options), {**options}, index.vocab_size)
    tokenizer, arrays = _load(folder, index.files)
    return Encoded(tokenizer, arrays, index.labels, index.notes, index.fingerprint, index.scale, index.specials)


def _check_options(folder: Path, before: dict[str, Any], now: dict[str, Any], vocab_size: object) -> None:
    if now.get("space.vocab_size") == vocab_size:  # the space already fits these data
        before.pop("space.vocab_size", None), now.pop("space.vocab_size", None)
    differing = [
        Fault(key, f"is {_shown(now, key)}, but the folder was prepared with {_shown(before, key, 'it ')}; "
                   "use another folder or delete this one")
        for key in sorted({*before, *now}) if before.get(key) != now.get(key)
    ]
    if differing:
        raise InputError(str(folder), differing)


def _shown(options: Mapping[str, Any], key: str, it: str = "") -> str:
    return shown(options[key]) if key in options else f"{it}not given"


def _load(folder: Path, files: Mapping[str, str]) -> tuple[Tokenizer, Arrays]:
    content = {}
    for name in (TOKENIZER, ARRAYS):
        content[name] = read_bytes(folder / name, f"delete {folder} and run the command again", MOST_DATA_BYTES)
        if hashlib.sha256(content[name]).hexdigest() != files.get(name):
            raise InputError(str(folder / name), f"is damaged; delete {folder} and run the command again")
    return Tokenizer.from_str(content[TOKENIZER].decode()), load(content[ARRAYS])
