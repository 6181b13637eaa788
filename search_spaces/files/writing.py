"""Atomic writing of files and folders: complete or absent, even after a power failure."""

from __future__ import annotations

import glob
import os
import platform
import re
import shutil
import stat
import time
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NAME = re.compile(r"\..+\.(?:(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-)?[0-9a-f]{8}")
"""Name of an unfinished file: its final name, then the machine and the process that write it; files of earlier versions
lack these."""
_OLD_S = 86400.0
"""Age in seconds after which an unfinished file of an unknown process counts as abandoned."""
_writing: set[str] = set()
"""Names of what this process is writing."""


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it is flushed to disk and renamed to `path` when the block ends.

    After an error it is deleted, as are leftovers of killed processes. Several processes may write the same path at
    once: the last one wins.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*"):
        _delete_left(left)
    temporary = path.with_name(f".{path.name}.{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}")
    _writing.add(temporary.name)
    try:
        yield temporary
        for file in (*temporary.rglob("*"), temporary):
            _usual_mode(file)
            _flush(file)
        temporary.rename(path)
        _flush(path.parent)
    except BaseException:
        delete(temporary)
        raise
    finally:
        _writing.discard(temporary.name)


def sweep(folder: Path) -> None:
    """Delete leftovers of killed processes in a folder and its subfolders."""
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _delete_left(Path(parent, name))]
        for name in files:
            _delete_left(Path(parent, name))


def delete(path: Path) -> None:
    """Delete a file or a folder if it exists."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _delete_left(path: Path) -> bool:
    """Delete a file or folder if it is an abandoned unfinished one; returns whether it was."""
    match = _NAME.fullmatch(path.name)
    if match is None or path.name in _writing:
        return False
    with suppress(OSError):
        own = match["machine"] == _machine()
        left = not _runs(int(match["process"])) if own else time.time() - path.stat().st_mtime > _OLD_S
        if left:
            delete(path)
        return left
    return False


def _machine() -> str:
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _runs(process: int) -> bool:
    """Whether a process other than this one runs under that id; what this one is writing is known."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # owned by another user
        return True
    return True


def _usual_mode(path: Path) -> None:
    """Set the default permissions of a file: libraries that write through a temporary file make it readable by its
    owner only."""
    if stat.S_IMODE(path.stat().st_mode) == 0o600:
        probe = path.with_name(f"{path.name}.mode")
        try:  # permissions of a new file show the umask, which can only be read by setting it
            os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            path.chmod(stat.S_IMODE(probe.stat().st_mode))
        finally:
            probe.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Flush a file or folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
