"""The stage `nas export`: a subnet in a format that others run, compared with the plain model before it is there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from safetensors import SafetensorError

from nas import export as formats
from nas.export._base import Run, Shipment
from nas.export._checking import MOST_LOSS, TOLERANCE, Case, largest_difference, losses, sample
from nas.run_dir import json_text, locked
from nas.subnet import Subnet
from search_spaces import InputError
from supernet.writing import delete, whole

RECORD = "export.json"
"""In every export's folder: what is known of it. A folder without one is not ours to replace."""


@dataclass(frozen=True)
class Asked:
    """What a user asks for.

    Args:
        out: the folder to write; `exports/FORMAT` in the subnet's by default.
        length: tokens of a sequence, for formats that fix them; the context by default.
        most_loss: nats that int8 may add to the loss.
    """

    format: str
    int8: bool = False
    out: str | None = None
    length: int | None = None
    most_loss: float | None = None

    @property
    def name(self) -> str:
        """Of the export."""
        return f"{self.format}-int8" if self.int8 else self.format

    def check(self) -> Any:
        """The format's module. Raises InputError where it does not do what is asked."""
        found = formats.get(self.format)
        why = found.missing()
        if why:
            raise InputError(f"--format {self.format}", f"cannot be written here: {why}")
        if self.int8 and not found.INT8:
            able = ", ".join(name for name in formats.names() if formats.get(name).INT8)
            raise InputError("--int8", f"is not for {self.format}; allowed: {able}")
        if self.length is not None and found.DYNAMIC:
            fixed = ", ".join(name for name in formats.names() if not formats.get(name).DYNAMIC)
            raise InputError("--length", f"is not for {self.format}, which takes any; it is for {fixed}")
        if self.most_loss is not None and not self.int8:
            raise InputError("--max-loss-increase", f"is for --int8; else logits may differ by {TOLERANCE:g} at most")
        return found


@dataclass(frozen=True)
class Exported:
    """What was written, and what is known of it."""

    name: str
    folder: Path
    record: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"format": self.name, "folder": str(self.folder), **self.record}

    def table(self) -> RenderableType:
        """For a terminal."""
        made = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for name, value in self.to_dict().items():
            made.add_row(name.replace("_", " "), _shown(name, value))
        return made


def export(name: str, asked: Asked, console: Console) -> Exported:
    """Write a subnet in a format, whole or not at all; an earlier export is replaced.

    Raises:
        InputError: the format cannot be written here, cannot take a block, or differs from the plain model.
    """
    found, subnet = asked.check(), Subnet.open(name)
    shipment = Shipment(subnet, _length(asked, subnet), asked.int8)
    folder = Path(asked.out) if asked.out else subnet.path / "exports" / asked.name
    if folder.exists() and not (folder / RECORD).is_file():
        raise InputError(str(folder), "exists and is no export; delete it, or name another folder with --out")
    try:
        with locked(subnet.path, "subnet"), console.status(f"exporting to {asked.name}"):
            with _replaced(folder) as temporary:
                record = _write(found, shipment, asked, temporary)
            facts = Subnet.open(str(subnet.path)).facts
            kept = {**record, "folder": asked.out} if asked.out else record
            subnet.write_facts(facts.model_copy(update={"exports": {**facts.exports, asked.name: kept}}))
    except (OSError, SafetensorError) as error:
        at = folder if os.access(subnet.path, os.W_OK) else subnet.path
        raise InputError(str(at), f"cannot be written ({getattr(error, 'strerror', None) or error})") from None
    return Exported(asked.name, folder, record)


def _length(asked: Asked, subnet: Subnet) -> int:
    if asked.length is not None and not 1 <= asked.length <= subnet.arch.context:
        raise InputError("--length", f"{asked.length} is not allowed; allowed: 1 to the context, {subnet.arch.context}")
    return asked.length or subnet.arch.context


def _write(found: Any, shipment: Shipment, asked: Asked, folder: Path) -> dict[str, Any]:
    """The files, the comparison and the record. Raises InputError where it is not good enough."""
    facts = found.write(shipment, folder)
    files = sorted(path.name for path in folder.iterdir())
    record = {"files": files, "bytes": sum((folder / file).stat().st_size for file in files),
              "inputs": list(shipment.names), **_sizes(found, shipment), **facts,
              **_compared(found, shipment, asked, folder)}
    (folder / RECORD).write_text(json_text({"schema_version": 1, **record}) + "\n", "utf-8")
    return record


def _sizes(found: Any, shipment: Shipment) -> dict[str, Any]:
    if found.DYNAMIC:
        return {"batch": "any", "length": f"1 to {shipment.arch.context}"}
    return {"batch": 1, "length": shipment.length}


def _compared(found: Any, shipment: Shipment, asked: Asked, folder: Path) -> dict[str, Any]:
    """How what was written stands to the plain model. Raises InputError where that is not good enough."""
    compared = sample(shipment, found.DYNAMIC, asked.int8)
    try:
        run = found.load(shipment, folder)
        facts = (_as_good if asked.int8 else _same)(run, shipment, asked, compared.cases)
    except InputError:
        raise
    except Exception as error:  # every runtime has its own
        says = " ".join(str(error).split())[:200]
        raise InputError(str(shipment.subnet.path), f"as {asked.name} it does not run: {says}") from error
    return {**facts, "compared_on": compared.what}


def _same(run: Run, shipment: Shipment, asked: Asked, cases: Sequence[Case]) -> dict[str, Any]:
    worst = largest_difference(run, shipment, cases)
    if not worst <= TOLERANCE:
        raise InputError(str(shipment.subnet.path),
                         f"as {asked.name} it differs from the plain model by {worst:.1e} of the largest logit; "
                         f"allowed: {TOLERANCE:g}; nothing is kept")
    return {"largest_difference": worst, "tolerance": TOLERANCE}


def _as_good(run: Run, shipment: Shipment, asked: Asked, cases: Sequence[Case]) -> dict[str, Any]:
    most = MOST_LOSS if asked.most_loss is None else asked.most_loss
    before, after = losses(run, shipment, cases)
    if not after - before <= most:
        raise InputError(str(shipment.subnet.path),
                         f"as {asked.name} its loss is {after:.4f} instead of {before:.4f}; allowed: {most:g} more, or "
                         "what --max-loss-increase says; nothing is kept")
    return {"loss": after, "plain_loss": before, "most_loss_increase": most}


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """As `whole`, a folder to fill, also where there is an older one: that goes when the new one is complete."""
    old, alone = folder.with_name(f".{folder.name}.old"), not folder.parent.exists()
    folder.parent.mkdir(parents=True, exist_ok=True)
    if old.exists() and not folder.exists():  # killed between the two names
        old.rename(folder)
    for left in folder.parent.glob(f".{folder.name}.*"):  # by a process that was killed
        delete(left)
    try:
        with whole(folder) as temporary:
            temporary.mkdir()
            yield temporary
            if folder.exists():
                folder.rename(old)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        if alone:
            with suppress(OSError):  # it is not empty
                folder.parent.rmdir()
        raise
    delete(old)


def _shown(name: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if name in ("not_delegated", "not_quantised"):
        return f"{100 * value:.2f} % of the work"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)
