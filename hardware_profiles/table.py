"""The latency table of a device: milliseconds of every unit, stored as CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from search_spaces.block import BlockConfig
from search_spaces.errors import Command, InputError, shown
from search_spaces.files.reading import csv_lines, parse_json, read_text
from search_spaces.units import Unit

REMEDY = f"run {Command('profile')} again"
SOURCES = ("measured", "interpolated", "estimated", "unpriced")
"""Sources of a price: `estimated` is computed from a specification; `unpriced` means that the profile was fitted on
whole models and the unit has no price."""


@dataclass(frozen=True)
class UnitWork:
    """The work of a unit in one call, independent of the device.

    Args:
        macs: multiply-adds of its matrix products.
        weight_bytes: of its own weights, in float32.
        moved_bytes: read and written by its operators.
        kernels: operators that compute something.
    """

    macs: float
    weight_bytes: float
    moved_bytes: float
    kernels: float


@dataclass(frozen=True)
class PriceRow:
    """One price.

    Args:
        ms: milliseconds of the unit, and the interval [low, high] they lie in with 95 % confidence.
        source: one of `SOURCES`.
        spaces: names of the profiled spaces that have the unit.
    """

    phase: str
    unit: Unit
    ms: float
    low: float
    high: float
    source: str
    work: UnitWork
    spaces: tuple[str, ...] = ()


class PriceTable(Mapping[tuple[str, Unit], PriceRow]):
    """Rows by phase and unit."""

    def __init__(self, rows: Iterable[PriceRow] = ()) -> None:
        self.rows = {(row.phase, row.unit): row for row in rows}

    def __getitem__(self, key: tuple[str, Unit]) -> PriceRow:
        return self.rows[key]

    def __iter__(self) -> Iterator[tuple[str, Unit]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def is_measured(self, phase: str, unit: Unit) -> bool:
        """Whether a unit was timed itself."""
        row = self.get((phase, unit))
        return row is not None and row.source == "measured"

    def with_rows(self, rows: Iterable[PriceRow]) -> PriceTable:
        """A table with rows added. If both contain a unit, measured replaces interpolated, then new replaces old."""
        merged = dict(self.rows)
        for row in rows:
            old = merged.get((row.phase, row.unit))
            if old is None or row.source == "measured" or old.source != "measured":
                merged[row.phase, row.unit] = replace(row, spaces=_both(old.spaces if old else (), row.spaces))
        return PriceTable(merged.values())

    def with_space(self, phase: str, units: Iterable[Unit], space: str) -> PriceTable:
        """A table that records that a space contains these units."""
        rows = [self[phase, unit] for unit in units]
        return PriceTable((self.rows | {(phase, row.unit): replace(row, spaces=_both(row.spaces, (space,)))
                                   for row in rows}).values())

    def to_csv(self) -> str:
        """One line per row, in a fixed order."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for row in sorted(self.values(), key=lambda row: (row.phase, row.unit.role, unit_text(row.unit))):
            work = [f"{value:.6g}" for value in asdict(row.work).values()]
            times = [f"{value:.6g}" for value in (row.ms, row.low, row.high)]
            writer.writerow([row.phase, unit_text(row.unit), *times, row.source, *work, json.dumps(row.spaces)])
        return out.getvalue()

    @classmethod
    def from_csv(cls, path: Path) -> PriceTable:
        """The table of a file. Raises InputError with the line of a fault."""
        lines = list(csv_lines(read_text(path, REMEDY), str(path), REMEDY))
        if lines and lines[0][1] == list(_COLUMNS[:-1]):  # from a version without the spaces of a unit
            lines = [(1, list(_COLUMNS)), *((number, [*line, "[]"]) for number, line in lines[1:])]
        if not lines or lines[0][1] != list(_COLUMNS):
            raise InputError(str(path), f"line 1 must be {','.join(_COLUMNS)}")
        rows: dict[tuple[str, Unit], PriceRow] = {}
        for number, line in lines[1:]:
            row = _read_row(line, f"{path}, line {number}")
            if (row.phase, row.unit) in rows:
                raise InputError(f"{path}, line {number}", f"{row.unit} is listed twice for {row.phase}; delete one "
                                                           "line")
            rows[row.phase, row.unit] = row
        return cls(rows.values())


_COLUMNS = ("phase", "unit", "ms", "low", "high", "source", *(field.name for field in fields(UnitWork)), "spaces")


def _both(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *new)))


def unit_text(unit: Unit) -> str:
    """A unit as JSON, the same for equal units; facts stay in the order their kind names them."""
    share = {} if unit.length_fraction == 1 else {"share": unit.length_fraction}
    return json.dumps({"role": unit.role, "kind": unit.block.kind, "dims": dict(unit.block.dims),
                       "facts": dict(unit.facts), **share}, separators=(",", ":"))


def read_unit(text: str) -> Unit:
    """The inverse of `unit_text`. Raises ValueError, KeyError or TypeError."""
    data = parse_json(text, "")
    if not isinstance(data, dict) or set(data) - {"share"} != {"role", "kind", "dims", "facts"}:
        raise ValueError("a unit has role, kind, dims, facts and, if not 1, share")
    if not all(isinstance(data[name], dict) for name in ("dims", "facts")) or not all(
            isinstance(value, (str, int, float)) for value in (
                data["role"], data["kind"], *data["dims"].values(), *data["facts"].values())):
        raise ValueError("role and kind of a unit must be strings, dims and facts tables of numbers, strings and "
                         "booleans")
    return Unit(data["role"], BlockConfig.of(data["kind"], data["dims"]), tuple(data["facts"].items()),
                float(data.get("share", 1)))


def _read_row(line: list[str], where: str) -> PriceRow:
    if len(line) != len(_COLUMNS):
        raise InputError(where, f"has {len(line)} of {len(_COLUMNS)} columns; the file may be truncated")
    phase, text, ms, low, high, source, *work, spaces = line
    try:
        unit, names = read_unit(text), tuple(map(str, parse_json(spaces, "")))
        numbers = [float(value) for value in (ms, low, high, *work)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(where, f"cannot be read ({shown(str(error))})", REMEDY) from None
    if not all(math.isfinite(value) and value >= 0 for value in numbers):
        raise InputError(where, f"{unit}: {ms} ms in [{low}, {high}] is not a valid latency")
    if source not in SOURCES:
        raise InputError(where, f"source {source!r} is not allowed; allowed: {', '.join(SOURCES)}")
    return PriceRow(phase, unit, numbers[0], numbers[1], numbers[2], source, UnitWork(*numbers[3:]), names)
