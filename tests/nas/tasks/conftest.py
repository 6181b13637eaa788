"""Small spaces and small data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nas import tasks
from nas.tasks import Prepared
from nas.testing.tasks import sentence
from search_spaces import SearchSpace, load_space

SPACES = {"lm": "lm-tiny", "classification": "encoder-small", "translation": "seq2seq-small"}


def small(task: str, vocab_size: int = 64, context: int = 16) -> SearchSpace:
    return dataclasses.replace(load_space(SPACES[task]), vocab_size=vocab_size, context=context)


Prepare = Callable[..., Prepared]
Files = dict[str, dict[str, object]]


@pytest.fixture
def prepare(tmp_path: Path) -> Prepare:
    """Prepare a task on small data in a folder of its own."""
    def run(task: str, data: Mapping[str, object] = {}, *, seed: int = 0, folder: str = "prepared",
            **space: int) -> Prepared:
        given = {key: str(value) for key, value in data.items()}
        return tasks.get(task).prepare(given, small(task, **space), tmp_path / folder, seed)
    return run


@pytest.fixture
def files(tmp_path: Path) -> dict[str, dict[str, object]]:
    """Options of a small data set for each task."""
    text, table = tmp_path / "text.txt", tmp_path / "table.tsv"
    text.write_text("".join(f"{sentence(i)} .\n" for i in range(60)), "utf-8")
    table.write_text("text\tlabel\n" + "".join(f"{sentence(i)}\tc{i % 3}\n" for i in range(60)), "utf-8")
    (tmp_path / "pairs.en").write_text("".join(f"{sentence(i)}\n" for i in range(60)), "utf-8")
    (tmp_path / "pairs.de").write_text("".join(f"{sentence(i + 1)}\n" for i in range(60)), "utf-8")
    return {
        "lm": {"train": text},
        "classification": {"train": table},
        "translation": {"train": tmp_path / "pairs", "source": "en", "target": "de"},
    }
