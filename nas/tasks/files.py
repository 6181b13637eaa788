"""Reading the user's files: bytes to text, and text to rows. Every fault names the file and the line."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nas.tasks.options import Options
from search_spaces.errors import InputError, Setting
from search_spaces.files.reading import parse_json

Row = tuple[str, ...]
DELIMITERS = {"\t": "tab", ";": "';'", "|": "'|'"}
"""Delimiter -> its name in the shell."""


def read_text(path: str, encoding: str = "utf-8") -> str:
    """The text of a file, unpacked where its name ends in `.gz`; line ends become newlines."""
    raw = _bytes(path)
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        other = "latin-1" if encoding.lower().replace("_", "-") in ("utf-8", "utf8", "ascii") else "utf-8"
        message = f"byte {error.start:,} (line {line:,}) is not {encoding}; give {Setting('data', 'encoding', other)}"
        raise InputError(path, message) from None
    except (LookupError, UnicodeError) as error:
        raise InputError(path, f"cannot be read as {encoding}: {error}") from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.strip():
        raise InputError(path, "is empty")
    return text


def check_is_file(path: str) -> None:
    """Raises InputError if the path is a folder."""
    if Path(path).expanduser().is_dir():
        raise InputError(path, "is a folder; give a file in it")


def _bytes(path: str) -> bytes:
    check_is_file(path)
    try:
        raw = Path(path).expanduser().read_bytes()
        return gzip.decompress(raw) if path.endswith(".gz") else raw
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(path, f"is not a complete gzip file: {error}") from None
    except FileNotFoundError:
        raise InputError(path, "no such file") from None
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror or error}") from None


def lines_of(text: str) -> list[str]:
    """The lines; only a newline ends one, because text may contain the other characters that `splitlines` splits at."""
    return text.removesuffix("\n").split("\n")


def format_of(path: str, options: Options) -> str:
    """The given format, or the one of the file extension; `text` if unknown."""
    ending = Path(path.removesuffix(".gz")).suffix.removeprefix(".")
    return options.format or (ending if ending in ("tsv", "csv", "jsonl") else "text")


def read_rows(path: str, options: Options, roles: Row) -> list[Row]:
    """The columns of a table, a row each. Blank lines are ignored.

    Args:
        roles: what the columns mean to the task; the groups of a pattern are named so.
    """
    text, kind = read_text(path, options.encoding), format_of(path, options)
    if kind == "jsonl":
        rows = list(_jsonl(path, text, options.columns))
    elif kind == "pattern" and options.pattern:
        rows = list(_matched(path, text, options.pattern, roles))
    else:
        rows = list(_table(path, _cells(path, text, kind, options.delimiter), options))
    if not rows:
        raise InputError(path, "has no rows")
    return rows


def _cells(path: str, text: str, kind: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells). Quotes are ordinary characters in TSV, as the GLUE files have it."""
    if kind == "tsv":
        yield from ((i, line.split("\t")) for i, line in enumerate(lines_of(text), 1) if line.strip())
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(path, f"line {reader.line_num:,} is not CSV: {error}") from None


def _table(path: str, cells: Iterator[tuple[int, list[str]]], options: Options) -> Iterator[Row]:
    places: list[int] = [int(column) - 1 for column in options.columns] if not options.header else []
    for line, row in cells:
        if not places:
            places = [_place(path, row, column) for column in options.columns]
            continue
        if len(row) <= max(places):
            message = f"line {line:,} has {len(row)} columns; column {max(places) + 1} is needed"
            raise InputError(path, message)
        yield tuple(row[place] for place in places)


def _place(path: str, header: list[str], column: str) -> int:
    names = [name.strip() for name in header]
    if column in names:
        return names.index(column)
    other = next((character for character in (";", "\t", "|") if len(names) == 1 and character in names[0]), None)
    hint = ""
    if other is not None:
        hint = f"; is the delimiter {other!r}? give {Setting('data', 'delimiter', DELIMITERS[other])}"
    raise InputError(path, f"has no column {column!r}; it has: {', '.join(names)}{hint}")


def _jsonl(path: str, text: str, columns: Row) -> Iterator[Row]:
    for number, line in enumerate(lines_of(text), 1):
        if not line.strip():
            continue
        record = parse_json(line, f"{path}: line {number:,}")
        yield tuple(cell(f"{path}: line {number:,}", record, column) for column in columns)


def cell(where: str, record: Any, column: str) -> str:
    """The value of a column as text; `a.b` reads inside nested records.

    Raises:
        InputError: there is no such column, or its value is neither text nor a number.
    """
    value = record
    for name in [column] if isinstance(record, dict) and column in record else column.split("."):
        if not isinstance(value, dict) or name not in value:
            there = ", ".join(map(str, value)) if isinstance(value, dict) else "no columns"
            raise InputError(where, f"has no column {column!r}; it has: {there}")
        value = value[name]
    if isinstance(value, (dict, list)) or value is None:
        raise InputError(where, f"column {column!r} contains {type(value).__name__}; allowed: text or a number")
    return str(value)


def _matched(path: str, text: str, pattern: re.Pattern[str], roles: Row) -> Iterator[Row]:
    for number, line in enumerate(lines_of(text), 1):
        if not line.strip():
            continue
        match = pattern.fullmatch(line)
        if match is None:
            raise InputError(path, f"line {number:,} does not match {pattern.pattern!r}: {line[:60]!r}")
        yield tuple(match[role] or "" for role in roles)
