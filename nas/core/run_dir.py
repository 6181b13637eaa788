"""The folder of one run: config, inputs and results. Every file is written atomically."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from nas.core.config import RunConfig, read_config
from nas.core.names import CONFIG, ROOT, known_runs
from search_spaces import InputError, SearchSpace
from search_spaces.errors import Command, did_you_mean
from search_spaces.files.loader import space_from_text, space_text
from search_spaces.files.reading import checked, read_table
from search_spaces.files.writing import delete, sweep, whole


class _Start(BaseModel):
    """The fields of a start that are read again."""

    workers: int = 1
    ray: str | None = None


class _Manifest(BaseModel):
    """The fields that are read from `manifest.json`."""

    space_sha256: str = ""
    data_fingerprint: str = ""
    starts: tuple[_Start, ...] = ()

SCHEMA_VERSION = 1


def folder_of_run(name: str) -> Path:
    """The folder of a run: `runs/<name>`, or the path itself if it is one.

    Raises:
        InputError: the name is not allowed, or that of a parent folder that does not exist. Existing folders may have
            any name.
    """
    path = Path(name)
    missing = (parent.name for parent in path.parents if parent.name and not parent.exists())
    if path.name == ".." or not all(re.fullmatch(r"[\w.+-]+", part) for part in (path.name, *missing)):
        raise InputError("run", f"{name!r} is not allowed; allowed: letters, digits, . _ + -, or the path of a folder "
                                "with such a name")
    return path if os.sep in name else ROOT / name


class RunDir:
    """A run by its name (`runs/<name>`) or by the path of its folder."""

    def __init__(self, name: str) -> None:
        self.path, self.name = folder_of_run(name), name

    @classmethod
    def create(cls, name: str, config: RunConfig, text: str | None = None) -> RunDir:
        """Create a run's folder with its config and space. Raises InputError if it exists or contains other files.

        Args:
            text: the space's YAML, if the config does not name a space.
        """
        run = cls(name)
        run.check_free()
        text = space_text(config.space) if text is None else text
        run.path.mkdir(parents=True, exist_ok=True)
        with run.locked():
            run.check_free()  # another process may have created it
            write_text(run.path / "space.yaml", text)
            write_text(run.config_path, config.to_yaml())
        return run

    def check_free(self) -> None:
        """Raises InputError if this folder cannot be used for a new run."""
        if self.config_path.exists():
            raise InputError(str(self.path), f"exists; resume it with {Command('train', resume=self.name)}, or "
                                             "choose another name")
        others = sorted(path.name for path in self.path.glob("*") if path.name != ".lock")
        if others:
            raise InputError(str(self.path), f"contains other files ({', '.join(others[:3])}); choose another name")

    @classmethod
    def open(cls, name: str) -> RunDir:
        """An existing run. Raises InputError if there is none."""
        run = cls(name)
        if not run.config_path.is_file():
            there = known_runs()
            known = f"runs here: {', '.join(there)}" if there else f"start one with {Command('train')}"
            raise InputError(str(run.path), f"is not a run; {known}{did_you_mean(name, there)}")
        return run

    def discard(self) -> None:
        """Delete a run that could not be started, so that its name is free again."""
        for name in ("data", "init", "ray", "tensorboard", "config.yaml", "space.yaml", "manifest.json", "metrics.csv",
                     ".failure.json", ".stop", ".lock"):
            delete(self.path / name)
        with suppress(OSError):  # it contains other files
            self.path.rmdir()
            if self.path.parent == ROOT:
                ROOT.rmdir()

    @property
    def is_begun(self) -> bool:
        """Whether the run contains training results."""
        rows = self.path / "metrics.csv"
        return (self.weights_path.exists() or (self.path / "checkpoints").exists()
                or rows.is_file() and rows.read_bytes().count(b"\n") > 1)

    @property
    def config_path(self) -> Path:
        """The resolved config."""
        return self.path / CONFIG

    @property
    def weights_path(self) -> Path:
        """The trained supernet."""
        return self.path / "supernet.safetensors"

    @property
    def init_path(self) -> Path:
        """The trained model that the supernet started from, ordered by importance, where there was one."""
        return self.path / "init"

    def config(self) -> RunConfig:
        """What the run was started with."""
        return read_config(self.config_path)

    def space(self) -> SearchSpace:
        """The space of the run's file; a task adapts vocabulary and classes to the data.

        Raises:
            InputError: the file was changed since: the run's weights would not fit it.
        """
        path = self.path / "space.yaml"
        text = space_text(path)
        if self.read_manifest().get("space_sha256", digest(path)) != digest(path):
            raise InputError(str(path), "differs from the file that the run was started with; restore it, or start a "
                                        "new run "
                                        "with it")
        return space_from_text(text, str(path))

    def read_manifest(self) -> dict[str, Any]:
        """The recorded inputs; empty if no stage has written them yet. Raises InputError for a damaged file."""
        path = self.path / "manifest.json"
        if not path.is_file():
            return {}
        remedy = "delete it; it is rewritten"
        data = read_table(path, remedy)
        checked(_Manifest, data, str(path), remedy)
        return data

    def write_manifest(self, facts: Mapping[str, Any], start: Mapping[str, Any]) -> None:
        """Add a start to the manifest: machine, versions, and facts of the stage.

        Args:
            facts: about the inputs; those of earlier starts are kept.
            start: the command of this start.
        """
        known = self.read_manifest()
        here = {"python": platform.python_version(), "platform": platform.platform(),
                "versions": {name: version(name) for name in ("paretoformer", "torch", "optuna", "ray", "tokenizers")}}
        facts = {"schema_version": SCHEMA_VERSION, "space_sha256": digest(self.path / "space.yaml"), **facts, **known}
        write_json(self.path / "manifest.json", {**facts, "starts": [*known.get("starts", ()), {**start, **here}]})

    def resume_command(self) -> Command:
        """The command that resumes the run as last started."""
        last = (self.read_manifest().get("starts") or [{}])[-1]
        on_ray = {"workers": last["workers"], "ray": last["ray"]} if last.get("workers", 1) > 1 else {}
        return Command("train", resume=self.name, **on_ray)

    def locked(self) -> AbstractContextManager[None]:
        """Lock the run against other processes. Raises InputError if it is locked."""
        return locked(self.path, "run")


@contextmanager
def locked(folder: Path, what: str) -> Iterator[None]:
    """Lock a folder against other processes; the lock is released when the process ends, however it ends.

    Leftovers of killed processes in it are deleted.

    `filelock` takes the same lock (flock), but up to version 3.29.7 a failed attempt empties the file (its issue 591),
    which contains the name of the owner.

    Args:
        what: what the folder belongs to, for the error.

    Raises:
        InputError: another process holds the lock; names it.
    """
    import fcntl

    with (folder / ".lock").open("a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.seek(0)
            who = handle.read().strip()
            raise InputError(str(folder), f"another process is using this {what}{who and f' ({who})'}; stop it "
                                          "first") from None
        handle.truncate(0)
        handle.write(f"process {os.getpid()} on {platform.node()}")
        handle.flush()
        sweep(folder)
        yield


def digest(*paths: Path) -> str:
    """The SHA-256 of files one after the other. Raises InputError for one that cannot be read."""
    digester = hashlib.sha256()
    for path in paths:
        try:
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digester.update(block)
        except OSError as error:
            raise InputError(str(path), f"cannot be read ({error.strerror})") from None
    return digester.hexdigest()


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    with whole(path) as temporary:
        temporary.write_text(text, "utf-8")


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write JSON atomically."""
    write_text(path, json_text(data) + "\n")


def json_text(data: Mapping[str, Any]) -> str:
    """Indented JSON; values that are not finite become null."""
    return json.dumps(_finite(data), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
