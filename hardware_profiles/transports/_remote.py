"""The part of the ssh transport that runs on the device: Python >= 3.9, its standard library, nothing else.

Its source is sent with every call, so nothing has to be installed. Files are stored under their hash, so that each is
sent once; a job's folder consists of links to them.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

MARK = "paretoformer:"
"""Prefix of an answer line, to skip output of login scripts."""
KEEP_DAYS = 30
"""Days after which unused files are deleted."""
FILES = "files.json"


def answer(data: dict[str, Any]) -> None:
    """Print an answer."""
    sys.stdout.write(MARK + json.dumps(data) + "\n")
    sys.stdout.flush()


def check(source: str) -> None:
    """Answer with the missing requirements of a runtime, given as source text."""
    lacks = None
    try:
        import numpy  # noqa: F401

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "runtime.py"
            path.write_text(source, "utf-8")
            spec = importlib.util.spec_from_file_location("device_runtime", str(path))
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            module.versions()
    except ImportError as error:
        lacks = [error.name or str(error), str(error)]
    answer({"python": sys.executable, "lacks": lacks})


def need(store: Path) -> None:
    """Answer with the hashes from standard input whose files are missing."""
    (store / "blobs").mkdir(parents=True, exist_ok=True)
    (store / "jobs").mkdir(exist_ok=True)
    wanted = json.load(sys.stdin)
    here = [digest for digest in wanted if (store / "blobs" / digest).is_file()]
    for digest in here:
        os.utime(store / "blobs" / digest)
    oldest = time.time() - KEEP_DAYS * 86400
    for path in (store / "blobs").iterdir():
        if path.stat().st_mtime < oldest:
            path.unlink()
    for path in (store / "jobs").iterdir():
        if path.stat().st_mtime < oldest:
            shutil.rmtree(path)
    answer({"need": sorted(set(wanted) - set(here))})


def put(store: Path, job: str, wait_s: float) -> None:
    """Unpack a tar from standard input, each file named by its hash, and create the job's folder."""
    lock(store, wait_s)
    files: dict[str, str] = {}
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            if member.name == FILES:
                files = json.load(content)
            else:
                _keep(store, member.name, content)
    folder = store / "jobs" / job
    shutil.rmtree(folder, ignore_errors=True)
    for name, digest in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(store / "blobs" / digest, path)
        except OSError:
            shutil.copyfile(store / "blobs" / digest, path)
    answer({"files": len(files)})


def _keep(store: Path, name: str, content: Any) -> None:
    part, hashed = store / "part", hashlib.sha256()
    with part.open("wb") as file:
        for chunk in iter(lambda: content.read(1 << 20), b""):
            hashed.update(chunk)
            file.write(chunk)
    if hashed.hexdigest() != name:
        raise OSError("a file was damaged in transfer")
    os.replace(part, store / "blobs" / name)


def lock(store: Path, wait_s: float) -> None:
    """Lock the device for this process, also across exec, until it exits."""
    held = os.open(store / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(held, True)
    until = time.monotonic() + wait_s
    while True:
        try:
            return fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > until:
                raise OSError("another measurement is running there; wait until it ends") from None
        time.sleep(0.2)


def run(store: Path, job: str, wait_s: float, lease_s: float) -> None:
    """Replace this process with the job."""
    lock(store, wait_s)
    paths = os.environ.pop("PYTHONPATH", "").split(os.pathsep)
    if any(paths):  # an empty entry is the working directory, the job's folder: it contains data, not modules
        os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in paths if path)
    os.chdir(store / "jobs" / job)
    answer({"started": True})
    os.execv(sys.executable, [sys.executable, "measure.py", ".", "--lease", str(lease_s)])  # noqa: S606


def main(call: dict[str, Any]) -> None:
    """Run a call; errors of the system are answers, too."""
    store = Path.home() / os.path.expanduser(call["folder"])
    try:
        if call["mode"] == "check":
            check(sys.stdin.read())
        elif call["mode"] == "need":
            need(store)
        elif call["mode"] == "put":
            put(store, call["job"], call["wait_s"])
        else:
            run(store, call["job"], call["wait_s"], call["lease_s"])
    except (OSError, tarfile.TarError) as error:
        answer({"fault": str(error)})
