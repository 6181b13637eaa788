"""From options to rows: which files to read, and how a missing split is taken from the training rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from nas.tasks.files import Row, cell, check_is_file
from nas.tasks.options import SPLITS, WHERE, Options
from search_spaces.errors import Fault, InputError, Setting

Rows = dict[str, list[Row]]
PART = 0.05
"""Share of the training rows that becomes a missing split."""
HUB_NAMES = {"train": "train", "valid": "validation", "test": "test"}
"""What the Hugging Face hub calls our splits."""


def read_splits(options: Options, read: Callable[[str], list[Row]]) -> Rows:
    """The rows of the splits that were given. Raises InputError with the faults of all files."""
    if options.hf:
        return _read_hub(options)
    rows: Rows = {}
    faults: list[Fault] = []
    for split, path in options.paths.items():
        try:
            check_is_file(path)
            rows[split] = read(path)
        except InputError as error:
            faults += [fault if error.where == WHERE else Fault(split, f"{error.where}: {fault}")
                       for fault in error.faults]
    if faults:
        raise InputError(WHERE, faults)
    return rows


def take_off(rows: Mapping[str, list[Row]], seed: int, keep: Callable[[Sequence[Row]], Collection[int]],
             part: float = PART) -> Rows:
    """Every split: a missing one takes a part of the training rows, at least one, drawn by the seed.

    Args:
        keep: the places in the training rows that must stay there.
    """
    train, splits = list(rows["train"]), dict(rows)
    missing = [split for split in SPLITS if split not in rows]
    rng = random.Random(f"splits {seed}")  # noqa: S311 - repeatable, not secret
    stay = set(keep(train))
    free = [place for place in range(len(train)) if place not in stay]
    n = max(1, int(part * len(train)))
    if len(free) < n * len(missing) or len(train) == n * len(missing):
        kept = f", of which {len(stay):,} must stay so that no label is lost," if len(stay) > 2 else ""
        raise too_few(missing, f"{len(train):,} training examples{kept}")
    rng.shuffle(free)
    for i, split in enumerate(missing):
        splits[split] = [train[place] for place in sorted(free[i * n:(i + 1) * n])]
    taken = set(free[:n * len(missing)])
    splits["train"] = [row for place, row in enumerate(train) if place not in taken]
    return splits


def too_few(missing: Sequence[str], there: str) -> InputError:
    """The error for too few rows to split."""
    needed = " and ".join(str(Setting("data", split, "PATH")) for split in missing)
    return InputError(WHERE, [Fault("train", f"{there} are too few to split; give {needed}")])


def thin(rows: list[Row], limit: int | None, seed: int, keep: Collection[int]) -> list[Row]:
    """At most `limit` rows, drawn by the seed, those of `keep` first; in their order."""
    if limit is None or limit >= len(rows):
        return rows
    first = sorted(keep)[:limit]
    others = sorted(set(range(len(rows))) - set(first))
    rng = random.Random(f"limit {seed}")  # noqa: S311 - repeatable, not secret
    return [rows[place] for place in sorted([*first, *rng.sample(others, limit - len(first))])]


def _read_hub(options: Options) -> dict[str, list[Row]]:
    """The rows of the splits that the data set has, with class names in the place of class numbers."""
    try:
        import datasets
    except ImportError:
        message = "needs the package datasets; run pip install 'paretoformer[datasets]'"
        raise InputError(WHERE, [Fault("hf", message)]) from None
    try:
        loaded = datasets.load_dataset(options.hf, options.config)
    except Exception as error:  # whatever the hub, the network or a loading script raises
        message = f"cannot load {options.hf!r}: {' '.join(str(error).split())}"
        raise InputError(WHERE, [Fault("hf", message)]) from error
    if "train" not in loaded:
        raise InputError(WHERE, [Fault("hf", f"{options.hf!r} has no split train; it has: {', '.join(loaded)}")])
    splits = {ours: list(_hub_rows(loaded[theirs], f"{options.hf} {theirs}", options.columns))
              for ours, theirs in HUB_NAMES.items() if theirs in loaded}
    return {name: rows for name, rows in splits.items() if rows}


def _hub_rows(split: Any, where: str, columns: Row) -> Iterator[Row]:
    features = getattr(split, "features", None) or {}
    named = {place: getattr(features.get(column), "names", None) for place, column in enumerate(columns)}
    classes = {place: list(names) for place, names in named.items() if names}
    for record in split:
        row = [cell(where, record, column) for column in columns]
        for place, names in classes.items():
            number = int(row[place])
            if number < 0:
                break  # the hub's mark for a label that is kept secret
            row[place] = names[number]
        else:
            yield tuple(row)
