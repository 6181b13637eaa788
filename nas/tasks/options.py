"""The options of a run's data, checked before anything is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from search_spaces.errors import Fault, InputError, Option

WHERE = Option("data")
FORMATS = ("text", "tsv", "csv", "jsonl", "pattern")
SPLITS = ("train", "valid", "test")
_OF_FILES = ("valid", "test", "format", "encoding", "header", "delimiter", "pattern")
_TAB = ("tab", "\\t", "\t")
_COUNTS = ("vocab_size", "limit", "size")


@dataclass(frozen=True)
class Options:
    """The checked options; what was not given is None or its default.

    Args:
        columns: the columns the task reads, in its order, named as the user names them.
        extras: the options that only this task has.
    """

    paths: Mapping[str, str]
    columns: tuple[str, ...]
    extras: Mapping[str, str]
    format: str | None = None
    encoding: str = "utf-8"
    header: bool = True
    delimiter: str = ","
    pattern: re.Pattern[str] | None = None
    hf: str | None = None
    config: str | None = None
    vocab_size: int | None = None
    limit: int | None = None
    tokenizer: str | None = None

    @property
    def embedded(self) -> bool:
        """Whether the bundled data are used."""
        return not self.paths and self.hf is None


def parse(data: Mapping[str, str], roles: tuple[str, ...], extras: Mapping[str, tuple[str, ...]],
          optional: tuple[str, ...] = ()) -> Options:
    """Check what the command line gave.

    Args:
        roles: the columns the task reads; each is an option that names its column.
        extras: options of this task's embedded data, each with its allowed values; none means a number.
        optional: columns that the task reads after the others if they are named.

    Raises:
        InputError: with all faults.
    """
    known = (*roles, *optional)
    roles = (*roles, *(role for role in optional if role in data))
    faults = [*_unknown(data, known, extras), *_misfits(data, roles, extras), *_values(data, extras)]
    pattern = _compiled(data.get("pattern"), roles, faults)
    if faults:
        raise InputError(WHERE, faults)
    numbers = {name: int(data[name]) for name in ("vocab_size", "limit") if name in data}
    return Options(
        paths={split: data[split] for split in SPLITS if split in data},
        columns=tuple(data.get(role, role) for role in roles),
        extras={name: data[name] for name in extras if name in data},
        format="pattern" if pattern else data.get("format"), encoding=data.get("encoding", "utf-8"),
        header=data.get("header", "true") == "true", pattern=pattern,
        delimiter="\t" if data.get("delimiter") in _TAB else data.get("delimiter", ","),
        hf=data.get("hf"), config=data.get("config"), tokenizer=data.get("tokenizer"), **numbers,
    )


def _unknown(data: Mapping[str, str], roles: tuple[str, ...], extras: Mapping[str, tuple[str, ...]]) -> Iterator[Fault]:
    allowed = ("train", *_OF_FILES, *roles, "hf", "config", "vocab_size", "limit", "tokenizer", *extras)
    for key in data:
        if key not in allowed:
            yield Fault(key, f"unknown; allowed: {', '.join(allowed)}")
        elif not data[key].strip() and data[key] != "\t":
            yield Fault(key, "has no value")


def _misfits(data: Mapping[str, str], roles: tuple[str, ...], extras: Mapping[str, tuple[str, ...]]) -> Iterator[Fault]:
    """Options that conflict with others."""
    if "train" in data and "hf" in data:
        yield Fault("hf", "give either train or hf, not both")
    for key in _OF_FILES:
        if key in data and "train" not in data:
            yield Fault(key, "needs train=PATH as well")
    for key in roles:
        if key in data and "train" not in data and "hf" not in data:
            yield Fault(key, "needs train=PATH or hf=NAME as well")
    if "vocab_size" in data and "tokenizer" in data:
        yield Fault("vocab_size", "cannot be combined with tokenizer, which has its own vocabulary")
    if "config" in data and "hf" not in data:
        yield Fault("config", "needs hf=NAME as well")
    for key in extras:
        if key in data and ("train" in data or "hf" in data):
            yield Fault(key, "is for the bundled data only; remove it, or remove train and hf")
    yield from _table_misfits(data, roles)


def _table_misfits(data: Mapping[str, str], roles: tuple[str, ...]) -> Iterator[Fault]:
    if "pattern" in data and data.get("format", "pattern") != "pattern":
        yield Fault("pattern", f"cannot be combined with format={data['format']}")
    if data.get("format") == "pattern" and "pattern" not in data:
        yield Fault("pattern", "is missing; format=pattern needs a regular expression")
    if "delimiter" in data and data.get("format", "csv") != "csv":
        yield Fault("delimiter", f"cannot be combined with format={data['format']}; it is for csv")
    if data.get("header") == "false" and "train" in data and "pattern" not in data:
        for key in roles:
            if not _is_count(data.get(key, "")):
                yield Fault(key, f"is {data.get(key)!r}; header=false needs a column number, counted from 1")


def _values(data: Mapping[str, str], extras: Mapping[str, tuple[str, ...]]) -> Iterator[Fault]:
    choices = {"format": FORMATS, "header": ("true", "false"), **extras}
    for key, allowed in choices.items():
        if allowed and data.get(key, allowed[0]) not in allowed:
            yield Fault(key, f"unknown {data[key]!r}; allowed: {', '.join(allowed)}")
    for key in _COUNTS:
        if not _is_count(data.get(key, "1")):
            yield Fault(key, f"is {data[key]!r}; allowed: a whole number from 1")
    delimiter = data.get("delimiter", ",")
    if delimiter not in _TAB and (len(delimiter) != 1 or delimiter in '"\r\n'):
        yield Fault("delimiter", f"is {delimiter!r}; allowed: one character such as ; or |, or tab")
    try:
        "a".encode(data.get("encoding", "utf-8"))
    except (LookupError, ValueError):  # also of codecs between texts, such as rot13
        yield Fault("encoding", f"unknown {data['encoding']!r}; for example utf-8, latin-1, cp1252, utf-16")


def _is_count(value: str) -> bool:
    return re.fullmatch(r"[0-9]{1,9}", value) is not None and int(value) > 0


def _compiled(pattern: str | None, roles: tuple[str, ...], faults: list[Fault]) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        faults.append(Fault("pattern", f"{pattern!r} is not a regular expression: {error}"))
        return None
    for role in roles:
        if role not in compiled.groupindex:
            faults.append(Fault("pattern", f"{pattern!r} has no group (?P<{role}>...)"))
    return compiled
