"""The index of a run's prepared data; does not read the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, Field

from nas.core.run_dir import RunDir
from search_spaces import SearchSpace
from search_spaces.files.reading import checked, read_json


class DataIndex(BaseModel):
    """The fields that are read from `data.json`."""

    sizes: dict[str, Annotated[int, Field(ge=0)]]
    vocab_size: Annotated[int, Field(ge=1)]
    labels: list[str]


def read_index(run: RunDir) -> DataIndex | None:
    """The index of a run's data; None if they were not prepared. Raises InputError if it is damaged."""
    path = run.path / "data" / "data.json"
    if not path.is_file():
        return None
    remedy = "restore the folder of the run"
    return checked(DataIndex, read_json(path, remedy), str(path), remedy)


def fitted_space(run: RunDir) -> SearchSpace:
    """The run's space with the vocabulary and classes of its data, which are not read themselves.

    Raises:
        InputError: a file is damaged.
    """
    space, index = run.space(), read_index(run)
    if index is None:
        return space
    return replace(space, vocab_size=index.vocab_size, n_classes=len(index.labels) or space.n_classes)
