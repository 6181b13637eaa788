"""Checkpoints: safetensors and JSON in one folder each, written atomically."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path

from pydantic import TypeAdapter
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from search_spaces.errors import InputError
from search_spaces.files.reading import checked, read_table
from search_spaces.files.writing import whole
from supernet.train.step import Progress, Trainer

SCHEMA_VERSION = 1
PREFIX = "step-"
_PROGRESS = TypeAdapter(Progress)


class Checkpoints:
    """The checkpoints of one run, each a folder `step-N`; keeps the newest `keep`, and with patience the best.

    A checkpoint is written under another name and renamed when it is complete, and renamed before it is
    deleted, so that a folder `step-N` is always complete, whenever the process dies.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep

    def save(self, trainer: Trainer) -> Path:
        """Write a checkpoint. Raises InputError if that fails; earlier checkpoints stay intact."""
        final = self._of(trainer.progress.step)
        if final.exists():
            return final
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._sweep()
            with whole(final) as folder:
                folder.mkdir()
                save_tensors(trainer.tensors(), folder / "state.safetensors")
                state = {"schema_version": SCHEMA_VERSION, "progress": asdict(trainer.progress)}
                (folder / "state.json").write_text(json.dumps(state, indent=2) + "\n", "utf-8")
        except (OSError, SafetensorError) as error:
            raise InputError(str(final), f"cannot be written ({_reason(error)}); {self._survivor()}") from None
        best = self._of(trainer.progress.best_step) if trainer.recipe.patience else None
        for old in self.all()[: -self.keep]:
            if old != best:
                old.rename(old.with_name("." + old.name))
        self._sweep()
        return final

    def all(self) -> list[Path]:
        """Every complete checkpoint, oldest first; other files are ignored."""
        return sorted((path for path in self.folder.glob(f"{PREFIX}*") if _step_text(path).isdecimal()),
                      key=lambda path: int(_step_text(path)))

    def load_newest(self, trainer: Trainer) -> bool:
        """Load the newest checkpoint into a trainer; false if there is none.

        Raises:
            InputError: it is damaged, or of another space or recipe.
        """
        folders = self.all()
        if folders:
            _load(folders[-1], trainer)
        return bool(folders)

    def newest_names(self) -> tuple[str, ...]:
        """The names of the newest checkpoint's tensors; none where there is no checkpoint. Raises InputError."""
        folders = self.all()
        return stored_names(folders[-1] / "state.safetensors") if folders else ()

    def load_best(self, trainer: Trainer) -> None:
        """Load the checkpoint of the best evaluation into a trainer with patience, if there is one.

        Raises InputError.
        """
        if trainer.recipe.patience and trainer.progress.best_loss is not None:
            _load(self._of(trainer.progress.best_step), trainer)

    def _of(self, step: int) -> Path:
        return self.folder / f"{PREFIX}{step:08d}"

    def _survivor(self) -> str:
        folders = self.all()
        return f"{folders[-1].name} is intact" if folders else "there is no earlier checkpoint"

    def _sweep(self) -> None:
        """Delete leftovers of a killed process: unfinished and half-deleted checkpoints."""
        for path in self.folder.glob(f".{PREFIX}*"):
            shutil.rmtree(path, ignore_errors=True)


def _load(folder: Path, trainer: Trainer) -> None:
    tensors, progress = load_tensors(folder / "state.safetensors"), read_progress(folder / "state.json")
    try:
        trainer.load(tensors, progress)
    except (KeyError, RuntimeError):
        raise InputError(str(folder), "does not fit the space and the settings of the run, which was started with "
                                      "different ones") from None


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors from any device to a safetensors file."""
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path,
              {"schema_version": str(SCHEMA_VERSION)})


REMEDY = "delete its folder to resume from the previous checkpoint"


def load_tensors(path: Path, remedy: str = REMEDY) -> dict[str, Tensor]:
    """Read a safetensors file onto the CPU. Raises InputError with a remedy if it is damaged."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(str(path), f"cannot be read ({_reason(error)})", remedy) from None


def stored_names(path: Path) -> tuple[str, ...]:
    """The names of the tensors of a safetensors file. Raises InputError if it is damaged."""
    try:
        with safe_open(path, "pt") as file:
            return tuple(file.keys())
    except (OSError, SafetensorError) as error:
        raise InputError(str(path), f"cannot be read ({_reason(error)})", REMEDY) from None


def newest_step(folder: Path) -> int:
    """The step of the newest checkpoint; 0 where there is none."""
    folders = Checkpoints(folder, keep=1).all()
    return int(_step_text(folders[-1])) if folders else 0


def read_progress(path: Path) -> Progress:
    """Read a checkpoint's JSON. Raises InputError if it is damaged."""
    data = read_table(path, REMEDY)
    known, progress = {field.name for field in fields(Progress)}, data.get("progress")
    if data.get("schema_version") != SCHEMA_VERSION or not isinstance(progress, dict) or set(progress) != known:
        raise InputError(str(path), f"has a different schema; this version reads schema_version {SCHEMA_VERSION}",
                         REMEDY)
    state = checked(_PROGRESS, progress, str(path), REMEDY)
    if min(state.step, state.tokens, state.skipped, state.best_step) < 0:
        raise InputError(str(path), f"is damaged (step {state.step}, best step {state.best_step})", REMEDY)
    return state


def _step_text(path: Path) -> str:
    return path.name.removeprefix(PREFIX)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error).splitlines()[0]
