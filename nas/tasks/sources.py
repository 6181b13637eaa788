"""From options to rows: which files to read, and how a missing split is taken off the training rows."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from nas.tasks.files import Row
from nas.tasks.hub import missing, read_hub
from nas.tasks.options import SPLITS, WHERE, Options
from search_spaces.errors import Fault, InputError

Rows = dict[str, list[Row]]
PART = 0.05
"""How much of the training rows a missing split takes."""


def read_splits(options: Options, read: Callable[[str], list[Row]]) -> Rows:
    """The rows of the splits that were given. Raises InputError with the faults of all files."""
    if options.hf:
        return read_hub(options)
    rows: Rows = {}
    errors: dict[str, InputError] = {}
    for split, path in options.paths.items():
        try:
            rows[split] = read(path)
        except InputError as error:
            errors[split] = error
    if len(errors) > 1:
        raise InputError(WHERE, [fault if error.where == WHERE else Fault(split, f"{error.where}: {fault}")
                                 for split, error in errors.items() for fault in error.faults])
    for only in errors.values():
        raise only
    return rows


def absent(options: Options) -> Iterator[Fault]:
    """What of the data is not there: files that cannot be opened, or the package that fetches a data set."""
    if options.hf and missing():
        yield Fault("hf", missing())
    for split, path in options.paths.items():
        found = Path(path).expanduser()
        if not found.exists():
            yield Fault(split, f"{path}: no such file")
        elif not found.is_file() or not os.access(found, os.R_OK):
            yield Fault(split, f"{path}: is no file that can be read")


def take_off(rows: Mapping[str, list[Row]], seed: int, keep: Callable[[Sequence[Row]], Collection[int]],
             part: float = PART) -> Rows:
    """Every split: a missing one takes a part of the training rows, at least one, drawn by the seed.

    Args:
        keep: the places in the training rows that must stay there.
    """
    train, found = list(rows["train"]), dict(rows)
    missing = [split for split in SPLITS if split not in rows]
    rng = random.Random(f"splits {seed}")  # noqa: S311 - repeatable, not secret
    stay = set(keep(train))
    free = [place for place in range(len(train)) if place not in stay]
    n = max(1, int(part * len(train)))
    if len(free) < n * len(missing) or len(train) == n * len(missing):
        raise too_few(missing, f"{len(train):,} training examples")
    rng.shuffle(free)
    for i, split in enumerate(missing):
        found[split] = [train[place] for place in sorted(free[i * n:(i + 1) * n])]
    taken = set(free[:n * len(missing)])
    found["train"] = [row for place, row in enumerate(train) if place not in taken]
    return found


def too_few(missing: Sequence[str], there: str) -> InputError:
    """There is not enough to take a split off."""
    needed = " and ".join(f"{split}=PATH" for split in missing)
    return InputError(WHERE, [Fault("train", f"{there} are too few to split; give --data {needed}")])


def thin(rows: list[Row], limit: int | None, seed: int, keep: Collection[int]) -> list[Row]:
    """At most `limit` rows, drawn by the seed, those of `keep` first; in their order."""
    if limit is None or limit >= len(rows):
        return rows
    first = sorted(keep)[:limit]
    others = sorted(set(range(len(rows))) - set(first))
    rng = random.Random(f"limit {seed}")  # noqa: S311 - repeatable, not secret
    return [rows[place] for place in sorted([*first, *rng.sample(others, limit - len(first))])]
