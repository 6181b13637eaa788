"""Rows of a Hugging Face data set, where the package `datasets` is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nas.tasks.files import Row, cell
from nas.tasks.options import WHERE, Options
from search_spaces.errors import Fault, InputError

_NAMES = {"train": "train", "valid": "validation", "test": "test"}
_NEEDED = "needs the package datasets; run pip install 'paretoformer[datasets]'"


def read_hub(options: Options) -> dict[str, list[Row]]:
    """The rows of the splits that the data set has, with class names in the place of class numbers."""
    try:
        import datasets
    except ImportError:
        raise InputError(WHERE, [Fault("hf", _NEEDED)]) from None
    try:
        found = datasets.load_dataset(options.hf, options.config)
    except Exception as error:  # whatever the hub, the network or a loading script raises
        says = f"cannot load {options.hf!r}: {' '.join(str(error).split())}"
        raise InputError(WHERE, [Fault("hf", says)]) from error
    if "train" not in found:
        raise InputError(WHERE, [Fault("hf", f"{options.hf!r} has no split train; it has: {', '.join(found)}")])
    splits = {ours: list(_rows(found[theirs], f"{options.hf} {theirs}", options.columns))
              for ours, theirs in _NAMES.items() if theirs in found}
    return {name: rows for name, rows in splits.items() if rows}


def _rows(split: Any, where: str, columns: Row) -> Iterator[Row]:
    classes = _class_names(getattr(split, "features", None) or {}, columns)
    for record in split:
        row = [cell(where, record, column) for column in columns]
        for place, names in classes.items():
            number = int(row[place])
            if number < 0:
                break  # the hub's mark for a label that is kept secret
            row[place] = names[number]
        else:
            yield tuple(row)


def _class_names(features: Mapping[str, Any], columns: Row) -> dict[int, list[str]]:
    found = {place: getattr(features.get(column), "names", None) for place, column in enumerate(columns)}
    return {place: list(names) for place, names in found.items() if names}
