"""The suite of tasks over ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from nas import tasks
from nas.testing import TaskContract
from nas.testing.tasks import N_ROWS, sentence
from search_spaces import InputError


class TestLanguageModelling(TaskContract):
    name = "lm"

    def data(self, folder: Path) -> dict[str, str]:
        (folder / "text.txt").write_text("".join(f"{sentence(i)} .\n" for i in range(N_ROWS)), "utf-8")
        return {"train": str(folder / "text.txt")}


class TestClassification(TaskContract):
    name = "classification"

    def data(self, folder: Path) -> dict[str, str]:
        rows = "".join(f"{sentence(i)}\tc{i % 3}\n" for i in range(N_ROWS))
        (folder / "table.tsv").write_text(f"text\tlabel\n{rows}", "utf-8")
        return {"train": str(folder / "table.tsv")}


class TestMaskedLanguageModelling(TestLanguageModelling):
    name = "masked-lm"


class TestPairs(TaskContract):
    name = "classification"

    def data(self, folder: Path) -> dict[str, str]:
        rows = "".join(f"{sentence(i)}\tc{i % 3}\t{sentence(i + 3)}\n" for i in range(N_ROWS))
        (folder / "table.tsv").write_text(f"text\tlabel\tother\n{rows}", "utf-8")
        return {"train": str(folder / "table.tsv"), "pair": "other"}


class TestTranslation(TaskContract):
    name = "translation"
    sample_options = {"size": "2000"}

    def data(self, folder: Path) -> dict[str, str]:
        for language, later in (("en", 0), ("de", 1)):
            lines = (f"{sentence(i + later)}\n" for i in range(N_ROWS))
            (folder / f"pairs.{language}").write_text("".join(lines), "utf-8")
        return {"train": str(folder / "pairs"), "source": "en", "target": "de"}


def test_the_tasks_are_found() -> None:
    assert {"classification", "lm", "translation"} <= set(tasks.names())
    with pytest.raises(InputError, match="unknown 'vision'; allowed: classification, lm, "):
        tasks.get("vision")
