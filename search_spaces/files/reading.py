"""Reads files: UTF-8 text, JSON, YAML and CSV, within size limits.

Faults raise InputError. `remedy` is the end of its sentence: what the user can do about the file. `where` names the
source of a text.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from search_spaces.errors import Fault, InputError, cut, shown
from search_spaces.files.yaml_loader import GREATEST, MOST_DEPTH, PlainLoader

MOST_BYTES = 2**30
"""Maximum size of a file; journals of long searches have tens of megabytes."""
MOST_YAML_BYTES = 2**24
"""Maximum size of a YAML file; YAML takes about a thousand times as long to parse as JSON."""
Checked = TypeVar("Checked")


def read_bytes(path: Path, remedy: str = "", most: int = MOST_BYTES) -> bytes:
    """The content of a file. Raises InputError if it cannot be read or is too large."""
    try:
        size = path.stat().st_size
        if size > most:
            raise InputError(str(path), f"has {size:,} bytes; allowed: at most {most:,}", remedy)
        return path.read_bytes()
    except OSError as error:
        raise InputError(str(path), f"cannot be read ({error.strerror or error})", remedy) from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(str(path), f"cannot be read ({error})", remedy) from None  # a null byte in the path


def read_text(path: Path, remedy: str = "", most: int = MOST_BYTES) -> str:
    """The text of a file, line ends as newlines. Raises InputError if it is not UTF-8."""
    return text_of(read_bytes(path, remedy, most), str(path), remedy)


def text_of(data: bytes, where: str, remedy: str = "") -> str:
    """Bytes as text, line ends as newlines."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(where, f"is not UTF-8 text: byte {error.start} cannot be read", remedy) from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_json(path: Path, remedy: str = "") -> Any:
    """The value in a JSON file."""
    return parse_json(read_text(path, remedy), str(path), remedy)


def read_table(path: Path, remedy: str = "") -> dict[str, Any]:
    """The object in a JSON file. Raises InputError if it contains anything else."""
    return table(read_json(path, remedy), str(path), remedy)


def table(data: object, where: str, remedy: str = "") -> dict[str, Any]:
    """Checks that data are a table of keys."""
    if not isinstance(data, dict):
        raise InputError(where, f"must be a table of keys, found {kind_of(data)}", remedy)
    return data


def parse_json(text: str, where: str, remedy: str = "", unique: bool = False) -> Any:
    """The value of a JSON text: not nested deeply, whole numbers below 2^63, text that can be written.

    Args:
        unique: whether duplicate keys are refused.
    """
    try:
        data = (_UNIQUE if unique else _DECODER).decode(text)
        _check_depth(text, data)
        if "\\u" in text:
            json.dumps(data, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        message = f"not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        raise InputError(where, message, remedy) from None
    except UnicodeEncodeError:
        raise InputError(where, "not valid JSON: an unpaired surrogate is not text", remedy) from None
    except RecursionError:
        raise InputError(where, f"not valid JSON: {_DEEP}", remedy) from None
    except ValueError as error:
        raise InputError(where, f"not valid JSON: {error}", remedy) from None
    return data


def json_lines(text: str, where: str, remedy: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of every line."""
    for number, line in enumerate(text.split("\n"), 1):
        if line or number == 1:
            place = f"{where}, line {number}"
            yield number, table(parse_json(line, place, remedy), place, remedy)


def complete_lines(data: bytes) -> bytes:
    """The lines of an append-only file without an incomplete last one, which a killed process leaves."""
    return data[: data.rfind(b"\n") + 1]


def read_json_lines(path: Path, remedy: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
    """The complete lines of an append-only file."""
    return json_lines(text_of(complete_lines(read_bytes(path, remedy)), str(path), remedy), str(path), remedy)


def read_yaml(path: Path, remedy: str = "") -> Any:
    """The value in a YAML file."""
    return parse_yaml(read_text(path, remedy), str(path), remedy)


def parse_yaml(text: str, where: str, remedy: str = "") -> Any:
    """The value of a YAML text; see `PlainLoader` for what is refused."""
    if len(text) > MOST_YAML_BYTES:
        message = f"has {len(text):,} characters; allowed: at most {MOST_YAML_BYTES:,}"
        raise InputError(where, message, remedy)
    try:
        return yaml.load(text, Loader=PlainLoader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(where, f"not valid YAML{place}: {problem}", remedy) from None
    except RecursionError:
        raise InputError(where, f"not valid YAML: {_DEEP}", remedy) from None


def read_csv(path: Path, columns: Sequence[str], remedy: str = "") -> list[tuple[int, dict[str, str]]]:
    """The rows of a CSV file; see `csv_rows`."""
    return csv_rows(read_text(path, remedy), str(path), columns, remedy)


def csv_rows(text: str, where: str, columns: Sequence[str], remedy: str = "") -> list[tuple[int, dict[str, str]]]:
    """(line number, cells by column) of every row of a CSV text with a header.

    Args:
        columns: what the header must have. Rows with fewer or more cells than the header are refused.
    """
    names, rows = list[str](), []
    for line, cells in csv_lines(text, where, remedy):
        if not names:
            names = cells
            continue
        if len(cells) != len(names):
            raise InputError(f"{where}, line {line}", f"has {len(cells)} of {len(names)} columns", remedy)
        rows.append((line, dict(zip(names, cells))))
    lacking = next((name for name in columns if name not in names), None)
    if lacking is not None:
        header = ", ".join(names) or "nothing"
        raise InputError(where, f"has no column {lacking!r}; it has: {cut(header, 200)}", remedy)
    return rows


def csv_lines(text: str, where: str, remedy: str = "") -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of every line of a CSV text that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(f"{where}, line {reader.line_num}", f"is not CSV: {error}", remedy) from None


def number(text: object, where: str, remedy: str = "") -> float:
    """A number that was written as text. Raises InputError."""
    try:
        return float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InputError(where, f"{shown(text)} is not a number", remedy) from None


def checked(kind: type[Checked] | TypeAdapter[Checked], data: object, where: str, remedy: str = "") -> Checked:
    """Data as a pydantic model, or as what an adapter describes. Raises InputError with the first fault."""
    try:
        if isinstance(kind, TypeAdapter):
            return kind.validate_python(data)
        return kind.model_validate(data) if issubclass(kind, BaseModel) else TypeAdapter(kind).validate_python(data)
    except ValidationError as error:
        raise InputError(where, f"is damaged ({first_fault(error)})", remedy) from None


def first_fault(error: ValidationError) -> Fault:
    """The first fault of a pydantic error."""
    return next(faults_of(error))


def faults_of(error: ValidationError) -> Iterator[Fault]:
    """All faults of a pydantic error, each with its key and, if a type or range is wrong, the value."""
    for item in error.errors(include_url=False, include_context=False):
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] not in ("missing", "extra_forbidden", "value_error"):
            message = not_allowed(item["input"], message)
        yield Fault(".".join(map(str, item["loc"])), message)


def not_allowed(value: object, message: str) -> str:
    """The message of pydantic about a value, in the words of a file instead of Python's."""
    words = {"a valid tuple": "a list", "a valid list": "a list", "a valid dictionary": "a table of keys"}
    for word, plain in words.items():
        message = message.replace(word, plain)
    return f"{'nothing' if value is None else shown(value)} is not allowed: {message[0].lower()}{message[1:]}"


def kind_of(value: object) -> str:
    """The type of a value, in words."""
    names = {dict: "a table", list: "a list", str: "a string", bool: "true or false", int: "a number",
             float: "a number"}
    return "nothing" if value is None else names.get(type(value), f"a {type(value).__name__}")


_DEEP = f"nested too deeply; allowed: {MOST_DEPTH} levels"


def _whole(digits: str) -> int:
    if len(digits) > 20 or abs(int(digits)) >= GREATEST:
        raise ValueError(f"the number {digits[:12]}... has {len(digits):,} digits; allowed: at most 18")
    return int(digits)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"duplicate key {shown(next(name for name in names if names.count(name) > 1))}")
    return table


_DECODER = json.JSONDecoder(parse_int=_whole)
_UNIQUE = json.JSONDecoder(parse_int=_whole, object_pairs_hook=_no_duplicates)


def _check_depth(text: str, data: object) -> None:
    """Raises RecursionError for data nested too deeply to be processed recursively."""
    if text.count("[") + text.count("{") <= MOST_DEPTH:
        return
    level: list[Any] = [data]
    for _ in range(MOST_DEPTH):
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)
                 if isinstance(inner, (dict, list))]
        if not level:
            return
    raise RecursionError
