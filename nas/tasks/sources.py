"""From options to rows: which files to read, and how a missing split is taken off the training rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence

from nas.tasks.files import Row, check_is_file
from nas.tasks.hub import read_hub
from nas.tasks.options import SPLITS, WHERE, Options
from search_spaces.errors import Fault, InputError, Setting

Rows = dict[str, list[Row]]
PART = 0.05
"""How much of the training rows a missing split takes."""


def read_splits(options: Options, read: Callable[[str], list[Row]]) -> Rows:
    """The rows of the splits that were given. Raises InputError with the faults of all files."""
    if options.hf:
        return read_hub(options)
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
    train, found = list(rows["train"]), dict(rows)
    missing = [split for split in SPLITS if split not in rows]
    rng = random.Random(f"splits {seed}")  # noqa: S311 - repeatable, not secret
    stay = set(keep(train))
    free = [place for place in range(len(train)) if place not in stay]
    n = max(1, int(part * len(train)))
    if len(free) < n * len(missing) or len(train) == n * len(missing):
        kept = f", {len(stay):,} of which have a label that no other has before them," if len(stay) > 2 else ""
        raise too_few(missing, f"{len(train):,} training examples{kept}")
    rng.shuffle(free)
    for i, split in enumerate(missing):
        found[split] = [train[place] for place in sorted(free[i * n:(i + 1) * n])]
    taken = set(free[:n * len(missing)])
    found["train"] = [row for place, row in enumerate(train) if place not in taken]
    return found


def too_few(missing: Sequence[str], there: str) -> InputError:
    """There is not enough to take a split off."""
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
