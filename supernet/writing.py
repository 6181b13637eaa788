"""Files and folders that are there whole or not at all, also after a power cut."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write what shall be at `path`: it gets its name when the block ends and it is on the disk.

    After an error nothing is left of it. Several processes may write the same path at once: the last one counts.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        yield temporary
        for each in (*temporary.rglob("*"), temporary):
            _flush(each)
        temporary.rename(path)
        _flush(path.parent)
    except BaseException:
        delete(temporary)
        raise


def delete(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Bring a file or folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
