"""Detects how to read a user's files: format, encoding, columns, splits and task."""

from __future__ import annotations

import csv
import gzip
import io
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nas.tasks.files import Row, lines_of, read_text
from search_spaces.errors import InputError, Option
from search_spaces.files.reading import parse_json

ROWS = 1000
"""Number of rows to inspect."""
MOST_CLASSES = 100
CONSISTENT = 0.98
"""Minimum share of rows with the same number of columns."""
MOST_CONTROL = 0.01
"""The share of control characters above which a file is not text."""
MOSTLY = 0.9
"""Minimum share of rows with a label in a column of labels."""
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
DELIMITERS = {"tsv": "\t;,|", "csv": ",;\t|"}
LABELLED = (
    ("COARSE:fine text", r"[^\s:]+:\S+ .+", r"(?P<label>[^\s:]+):\S+ (?P<text>.*)"),
    ("__label__NAME text", r"__label__\S+\s+.+", r"__label__(?P<label>\S+)\s+(?P<text>.*)"),
    ("NUMBER text", r"[+-]?\d+[ \t]+\S.*", r"(?P<label>[+-]?\d+)[ \t]+(?P<text>.*)"),
)
"""Lines with a class at their beginning: what they are called, what all lines match, and how they are read."""
NAMES = {"text": r"text|sentence|review|content|body|document|question|comment|message|tweet",
         "label": r"label|class|category|stars|rating|sentiment|score|polarity|topic|target|y"}
_SPLITS = {"train": ("train",), "valid": ("valid", "validation", "val", "dev"), "test": ("test",)}


@dataclass(frozen=True)
class Guess:
    """How files may be read.

    Args:
        description: the format, in words.
        task: the task they suit best.
        data: the options of `nas train --data`, without columns.
        columns: what a table calls its columns: names, or numbers from 1.
        rows: the first rows as they are read.
        picks: by option (text, label, source, target) the columns that it may be, the likeliest first.
        notes: which files are used and which are not, if they differ from the given ones.
        part: what a column is called in a question: a column, or a file of two parallel ones.
    """

    description: str
    task: str
    data: dict[str, str]
    columns: Row = ()
    rows: list[Row] = field(default_factory=list)
    picks: dict[str, Row] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    part: str = "column"


def guess(paths: Sequence[str], task: str | None = None) -> Guess:
    """How one file, a folder with splits, or two parallel files may be read. Raises InputError.

    Args:
        task: the task, where the user named it; one file is taken with its parallel file only for a translation.
    """
    if len(paths) > 2:
        message = f"{len(paths)} paths are given; allowed: a file, a folder, or two parallel files"
        raise InputError(Option("data"), message)
    if len(paths) == 1 and Path(paths[0]).expanduser().is_dir():
        folder, paths = Path(paths[0]).expanduser(), _of_folder(Path(paths[0]).expanduser())
        guessed = _parallel(paths[0], paths[1], sure=False) if len(paths) == 2 else _single(paths[0])
        return replace(guessed, notes=tuple(_unused(folder, paths, guessed)))
    partner = _partner(paths[0]) if len(paths) == 1 and task in (None, "translation") else None
    if partner is not None:
        note = f"{partner} is read as its parallel file; set the task to lm to train on {paths[0]} alone"
        return replace(_parallel(paths[0], partner), notes=(note,))
    return _parallel(paths[0], paths[1]) if len(paths) == 2 else _single(paths[0])


def _unused(folder: Path, paths: Sequence[str], guessed: Guess) -> Iterator[str]:
    """A note about unread files of a folder."""
    names = {Path(path).name for path in paths}
    starts = tuple(Path(guessed.data[split]).name.partition("*")[0] for split in _SPLITS if split in guessed.data)
    rest = [path.name for path in sorted(folder.iterdir()) if path.is_file() and path.name not in names
            and not path.name.startswith((".", *starts))]
    if rest:
        yield f"not used from {folder}: {', '.join(rest[:5])}{' ...' if len(rest) > 5 else ''}"


def _of_folder(folder: Path) -> list[str]:
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    chosen = [str(path) for path in files if _split_of(path) == "train"] or [str(path) for path in files]
    chosen.sort(key=lambda path: re.search(r"\.en\b", path) is None)
    if len(chosen) == 1 or len(chosen) == 2 and not {*map(_ending, chosen)} & {"csv", "tsv", "jsonl"}:
        return chosen
    names = ", ".join(path.name for path in files[:6]) or "nothing"
    raise InputError(str(folder), f"it is unclear which file to train on (found {names}); give one file, or two "
                                  "parallel files")


def _split_of(path: Path) -> str | None:
    """The split in a file's name."""
    words = re.split(r"[^a-z]+", path.name.lower())
    return next((split for split, known in _SPLITS.items() if set(known) & set(words)), None)


def _partner(path: str) -> str | None:
    """The parallel file of one such as `train.en`: the only other one that ends in another language."""
    match = re.fullmatch(r"(.+?\.)([a-z]{2,3})((?:\.txt)?(?:\.gz)?)", Path(path).name)
    if match is None or match[2] in ("txt", "tsv", "csv", "gz", "log", "md", "xml"):
        return None
    others = [other for other in Path(path).expanduser().parent.glob("*")
              if re.fullmatch(re.escape(match[1]) + "[a-z]{2,3}" + re.escape(match[3]), other.name)
              and other.name != Path(path).name]
    return str(Path(path).parent / others[0].name) if len(others) == 1 else None


def _parallel(first: str, second: str, sure: bool = True) -> Guess:
    """Two parallel files, the source first; either may be the source if the user named only their folder."""
    encoding = next((name for name in map(_encoding, (first, second)) if name != "utf-8"), "utf-8")
    sides = [lines_of(read_text(path, encoding)) for path in (first, second)]
    if len(sides[0]) != len(sides[1]):
        raise InputError(first, f"has {len(sides[0]):,} lines but {second} has {len(sides[1]):,}; parallel files need "
                                "the same number of lines")
    before, parts, after = _common(first, second)
    if before.endswith(".") and (not after or after.startswith(".")) and "*" not in before:
        data, pair = {"train": before[:-1]}, (parts[0] + after, parts[1] + after)
        names = {split: before[:-1].replace("train", word) for split, word in _others(before)
                 if all(_exists(f"{before[:-1].replace('train', word)}.{part}{after}") for part in parts)}
    else:
        data, pair = {"train": f"{before}*{after}"}, parts
        names = {split: f"{before}*{after}".replace("train", word) for split, word in _others(before + after)
                 if all(_exists(f"{before}{part}{after}".replace("train", word)) for part in parts)}
    extra = {} if encoding == "utf-8" else {"encoding": encoding}
    return Guess(f"parallel files, {len(sides[0]):,} pairs", "translation", {**data, **names, **extra},
                 pair, list(zip(*sides))[:3],
                 {"source": pair if not sure else pair[:1], "target": pair[::-1] if not sure else pair[1:]},
                 part="file")


def _common(first: str, second: str) -> tuple[str, tuple[str, str], str]:
    """Two paths as what they begin with, what differs, and what they end with; whole words differ."""
    words = [re.findall(r"\w+|\W", path) for path in (first, second)]
    n, m = 0, 0
    while n < min(map(len, words)) and words[0][n] == words[1][n]:
        n += 1
    while m < min(map(len, words)) - n and words[0][-1 - m] == words[1][-1 - m]:
        m += 1
    parts = ["".join(path_words[n : len(path_words) - m]) for path_words in words]
    if not all(parts):
        raise InputError(first, f"{second} must differ from it in one word, as in train.de and train.en; rename it")
    return "".join(words[0][:n]), (parts[0], parts[1]), "".join(words[0][len(words[0]) - m :])


def _others(text: str) -> Iterator[tuple[str, str]]:
    """The other splits, and their names in place of `train` in file names."""
    if "train" in text:
        yield from ((split, word) for split in ("test", "valid") for word in reversed(_SPLITS[split]))


def _exists(path: str) -> bool:
    return Path(path).expanduser().is_file()


def _single(path: str) -> Guess:
    encoding = _encoding(path)
    text = read_text(path, encoding)
    data = {"train": path, **_siblings(path), **({} if encoding == "utf-8" else {"encoding": encoding})}
    lines = [line for line in lines_of(text)[: 2 * ROWS] if line.strip()][:ROWS]
    return _jsonl(lines, path, data) or _labelled(lines, data) or _table(text, path, data) or Guess(
        "plain text", "lm", data if _ending(path) not in ("tsv", "csv", "jsonl") else {**data, "format": "text"},
        ("text",), [(line,) for line in lines[:3]])


def _encoding(path: str) -> str:
    """utf-8 if it is valid, utf-16 with a byte-order mark, and otherwise cp1252 or latin-1.

    They differ in bytes that are quotes, dashes and the euro sign in cp1252 and control characters in latin-1.
    """
    try:
        raw = Path(path).expanduser().read_bytes()
        raw = gzip.decompress(raw) if path.endswith(".gz") else raw
        raw.decode("utf-8")
    except UnicodeDecodeError:
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            return "utf-16"
        encoding = "cp1252" if re.search(rb"[\x80-\x9f]", raw) and _is_valid(raw, "cp1252") else "latin-1"
        if len(_CONTROL.findall(raw.decode(encoding))) > MOST_CONTROL * len(raw):
            raise InputError(path, "is not text: it contains many control characters") from None
        return encoding
    except (OSError, EOFError):
        read_text(path)  # says what is wrong
    return "utf-8"


def _is_valid(raw: bytes, encoding: str) -> bool:
    try:
        raw.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _ending(path: str) -> str:
    return Path(path.removesuffix(".gz")).suffix.removeprefix(".").lower()


def _siblings(path: str) -> dict[str, str]:
    """Files next to the training file that are named like its other splits."""
    own = Path(path).expanduser()
    splits: dict[str, str] = {}
    if _split_of(own) == "train":
        for other in sorted(own.parent.iterdir()):
            split = _split_of(other)
            if other.is_file() and split not in (None, "train", *splits) and _ending(other.name) == _ending(own.name):
                splits[str(split)] = str(Path(path).parent / other.name)
    return splits


def _jsonl(lines: Sequence[str], path: str, data: dict[str, str]) -> Guess | None:
    try:
        records = [parse_json(line, path) for line in lines]
    except ValueError:
        return None
    if not records or not all(isinstance(record, dict) for record in records):
        return None
    flat = [dict(_flat(record)) for record in records]
    columns = tuple(name for name in flat[0] if all(name in fields for fields in flat))
    rows: list[Row] = [tuple(fields[name] for name in columns) for fields in flat]
    return _with_columns("JSON lines", columns, rows, data if _ending(path) == "jsonl" else {**data, "format": "jsonl"})


def _flat(record: dict[str, object], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        elif isinstance(value, str | int | float):
            yield f"{before}{name}", str(value)


def _labelled(lines: Sequence[str], data: dict[str, str]) -> Guess | None:
    for form, whole, pattern in LABELLED:
        if lines and all(re.fullmatch(whole, line) for line in lines):
            matches = [match for line in lines if (match := re.fullmatch(pattern, line))]
            labels = {match["label"] for match in matches}
            if 2 <= len(labels) <= min(MOST_CLASSES, max(len(lines) // 2, 2)):
                rows: list[Row] = [(match["text"], match["label"]) for match in matches[:3]]
                return Guess(f"lines of the form {form!r}", "classification", {**data, "pattern": pattern},
                             ("text", "label"), rows)
    return None


def _table(text: str, path: str, data: dict[str, str]) -> Guess | None:
    for delimiter in DELIMITERS.get(_ending(path), "\t;|,"):
        rows = _rows(text, delimiter)
        widths = [len(row) for row in rows]
        usual = statistics.mode(widths) if widths else 0
        enough = len(rows) > 2 and usual > 1 and widths.count(usual) >= CONSISTENT * len(rows)
        if enough and (delimiter != "," or _ending(path) == "csv"):
            kind = "tsv" if delimiter == "\t" else "csv"
            options = {} if _ending(path) == kind else {"format": kind}
            options |= {} if delimiter in "\t," else {"delimiter": delimiter}
            return _of_table(kind, [row for row in rows if len(row) == usual], {**data, **options})
    return None


def _rows(text: str, delimiter: str) -> list[Row]:
    """The first rows; in TSV, quotes are ordinary characters, as in the files of GLUE."""
    if delimiter == "\t":
        return [tuple(line.split("\t")) for line in lines_of(text)[:ROWS] if line.strip()]
    rows: list[Row] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            rows += [tuple(row)] if row else []
            if len(rows) == ROWS:
                break
    except csv.Error:
        return []
    return rows


def _of_table(kind: str, rows: list[Row], data: dict[str, str]) -> Guess:
    first, rest = tuple(cell.strip() for cell in rows[0]), rows[1:]
    if _is_header(first, rest):
        return _with_columns(f"{kind.upper()} with a line of column names", first, rest, data)
    columns = tuple(str(i + 1) for i in range(len(first)))
    return _with_columns(f"{kind.upper()} without a line of column names", columns, rows, {**data, "header": "false"})


def _is_header(first: Row, rest: Sequence[Row]) -> bool:
    """Column names are short, distinct and not numbers, and do not occur as values of their columns."""
    if len(set(first)) < len(first) or any(not name or len(name) > 40 or _is_number(name) for name in first):
        return False
    return not any(name in {row[i].strip() for row in rest} for i, name in enumerate(first))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+([.,]\d+)?", text.strip()) is not None


def _with_columns(form: str, columns: Row, rows: list[Row], data: dict[str, str]) -> Guess:
    cells = {name: [row[i] for row in rows] for i, name in enumerate(columns)}
    length = {name: statistics.mean(map(len, values)) for name, values in cells.items()}
    texts = sorted((name for name in columns if not all(map(_is_number, cells[name]))),
                   key=lambda name: (not _is_named("text", name), -length[name]))
    long = [name for name in sorted(texts, key=lambda name: -length[name])
            if length[name] >= 0.6 * max(length.values())]
    texts = list(dict.fromkeys([*(name for name in texts if _is_named("text", name)), *long])) or list(columns)
    labels = [name for name in _labels(cells) if name != texts[0]]
    guessed = Guess(form, "classification", data, columns, rows[:3],
                  {"text": tuple(texts), "label": tuple(labels)})
    if labels:
        return guessed
    if len(long) == 2:
        pair = tuple(name for name in columns if name in long)
        return Guess(form, "translation", data, columns, rows[:3], {"source": pair, "target": pair[::-1]})
    return Guess(form, "lm", data, columns, rows[:3], {"text": tuple(texts)})


def _labels(cells: dict[str, list[str]]) -> list[str]:
    """Columns with few repeated values, most likely first; one with empty cells only if no other column fits."""
    def likely(name: str) -> tuple[bool, bool, int]:
        return not _is_named("label", name), not all(map(_is_number, filled[name])), len(set(filled[name]))

    filled = {name: [value for value in values if value.strip()] for name, values in cells.items()}
    few = [name for name, values in filled.items() if len(values) >= MOSTLY * len(cells[name])
           and 2 <= len(set(values)) <= min(MOST_CLASSES, len(values) // 2)]
    whole = [name for name in few if len(filled[name]) == len(cells[name])]
    return sorted(whole or few, key=likely)


def _is_named(role: str, name: str) -> bool:
    return re.search(rf"(^|[^a-z])({NAMES[role]})s?($|[^a-z])", name.lower()) is not None
