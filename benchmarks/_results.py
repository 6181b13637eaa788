"""Appends rows to the committed measurements: `--results benchmarks/results`."""

from __future__ import annotations

import argparse
import csv
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from hardware_profiles.protocol import machine

ROOT = Path(__file__).resolve().parent.parent
PROVENANCE = ("commit", "recorded_in", "machine", "date", "command")
"""The last columns of every file. `recorded_in` is for rows that were copied from a page; new rows leave it empty."""


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, metavar="FOLDER",
                        help="append the rows to the CSV files of this folder, such as benchmarks/results")


def append(folder: Path | None, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append rows to `folder/name.csv`, with the commit, machine, date and command of this process.

    Without a folder nothing is written. Columns that a row does not have stay empty.

    Raises:
        ValueError: a row has a column that the file does not have.
    """
    rows = [{**row, **_provenance()} for row in rows]
    if folder is None or not rows:
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.csv"
    new = not path.exists()
    columns = [*(key for key in rows[0] if key not in PROVENANCE), *PROVENANCE] if new else _header(path)
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def _header(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="") as file:
        return next(csv.reader(file))


def commit() -> str:
    """The commit of the code, with `-dirty` where files other than measurements differ from it."""
    head = _git("describe", "--always").stdout.strip()
    changed = _git("diff", "--quiet", "HEAD", "--", ".", ":!benchmarks/results").returncode == 1
    return f"{head}-dirty" if changed else head


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607


def _provenance() -> dict[str, str]:
    command = shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    return {"commit": commit(), "machine": str(machine()["cpu"]), "date": str(date.today()),
            "command": command}
