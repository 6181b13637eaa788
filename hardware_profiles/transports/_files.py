"""File transfer to a device: each file is sent once, identified by its content hash."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO

from hardware_profiles.transports._remote import FILES


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            hashed.update(chunk)
    return hashed.hexdigest()


def archive(folder: Path, files: Mapping[str, str], needed: Collection[str]) -> IO[bytes]:
    """A tar with the list of files, and those that are needed under their hash."""
    named = {local: name for name, local in files.items() if local in needed}
    output = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    with tarfile.open(fileobj=output, mode="w") as tar:
        _add(tar, FILES, io.BytesIO(json.dumps(dict(files)).encode()))
        for local, name in named.items():
            with (folder / name).open("rb") as file:
                _add(tar, local, file)
    output.seek(0)
    return output


def as_file(text: str) -> IO[bytes]:
    """A text that a process can read on its standard input."""
    output = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    output.write(text.encode())
    output.seek(0)
    return output


def _add(tar: tarfile.TarFile, name: str, file: IO[bytes]) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = file.seek(0, io.SEEK_END)
    file.seek(0)
    tar.addfile(entry, file)
