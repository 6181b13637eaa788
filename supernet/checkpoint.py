"""Checkpoints: safetensors and JSON in one folder each, whole or not there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from search_spaces.errors import InputError
from supernet.training import Progress, Trainer

SCHEMA_VERSION = 1
PREFIX = "step-"


class Checkpoints:
    """The checkpoints of one run, each a folder `step-N`; the newest `keep` stay.

    A checkpoint is written under another name and renamed when it is complete, and renamed before it is
    deleted, so that a folder `step-N` is always whole, whenever the process dies.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep

    def save(self, trainer: Trainer) -> Path:
        """Write a checkpoint. Raises InputError where that fails; the ones before are intact."""
        final = self.folder / f"{PREFIX}{trainer.progress.step:08d}"
        if final.exists():
            return final
        temporary = self.folder / f".{final.name}.{os.getpid()}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._sweep()
            temporary.mkdir()
            save_tensors(trainer.tensors(), temporary / "state.safetensors")
            state = {"schema_version": SCHEMA_VERSION, "progress": asdict(trainer.progress)}
            (temporary / "state.json").write_text(json.dumps(state, indent=2) + "\n", "utf-8")
            for path in (*temporary.iterdir(), temporary):
                _flush(path)
            temporary.rename(final)
            _flush(self.folder)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise InputError(str(final), f"cannot be written ({_reason(error)}); {self._survivor()}") from None
        for old in self.all()[: -self.keep]:
            old.rename(old.with_name("." + old.name))
        self._sweep()
        return final

    def all(self) -> list[Path]:
        """Every complete checkpoint, oldest first; what else stands there is not ours."""
        return sorted((path for path in self.folder.glob(f"{PREFIX}*") if _step_text(path).isdecimal()),
                      key=lambda path: int(_step_text(path)))

    def load_newest(self, trainer: Trainer) -> bool:
        """Bring a trainer to the newest checkpoint; false where there is none.

        Raises:
            InputError: it is damaged, or of another space or recipe.
        """
        found = self.all()
        if not found:
            return False
        tensors, progress = load_tensors(found[-1] / "state.safetensors"), read_progress(found[-1] / "state.json")
        try:
            trainer.load(tensors, progress)
        except (KeyError, RuntimeError):
            raise InputError(str(found[-1]), "does not fit the space and the settings of the run; it was started with "
                                             "others") from None
        return True

    def _survivor(self) -> str:
        found = self.all()
        return f"{found[-1].name} is intact" if found else "there is none before it"

    def _sweep(self) -> None:
        """Delete what a killed process left: unfinished ones, and those on their way out."""
        for path in self.folder.glob(f".{PREFIX}*"):
            shutil.rmtree(path, ignore_errors=True)


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors, wherever they live, to a safetensors file."""
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path,
              {"schema_version": str(SCHEMA_VERSION)})


REMEDY = "delete its folder to go on from the checkpoint before"


def load_tensors(path: Path, remedy: str = REMEDY) -> dict[str, Tensor]:
    """Read a safetensors file onto the CPU. Raises InputError, with what helps, where it is damaged."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(str(path), f"cannot be read ({_reason(error)}); {remedy}") from None


def newest_step(folder: Path) -> int:
    """The step of the newest checkpoint; 0 where there is none."""
    found = Checkpoints(folder, keep=1).all()
    return int(_step_text(found[-1])) if found else 0


def read_progress(path: Path) -> Progress:
    """Read a checkpoint's JSON. Raises InputError where it is damaged."""
    try:
        state: dict[str, Any] = json.loads(path.read_text("utf-8"))
        known = {field.name for field in fields(Progress)}
        if state["schema_version"] != SCHEMA_VERSION or set(state["progress"]) != known:
            raise InputError(str(path), f"has another schema; this program reads schema_version {SCHEMA_VERSION}")
        return Progress(**state["progress"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(str(path), f"cannot be read; {REMEDY}") from None


def _step_text(path: Path) -> str:
    return path.name.removeprefix(PREFIX)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error).splitlines()[0]


def _flush(path: Path) -> None:
    """Bring a file or folder to the disk, so that a power cut after the rename does not lose it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
