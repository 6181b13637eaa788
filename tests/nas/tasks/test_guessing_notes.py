"""What is said of files that are read beside the one that was named, or not read at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from nas.tasks.guessing import guess
from search_spaces import InputError
from search_spaces.errors import Setting, with_references

PAIRS = "\n".join(f"line {i}" for i in range(20))


@pytest.fixture(autouse=True)
def parallel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.en").write_text(PAIRS, "utf-8")
    Path("train.de").write_text(PAIRS, "utf-8")


def test_a_parallel_file_is_named_and_left_alone_for_another_task() -> None:
    assert guess(["train.en"]).notes == ("train.de is read as its parallel file; set the task to lm to train on "
                                         "train.en "
                                         "alone",)
    assert (guess(["train.en"], "lm").task, guess(["train.en"], "lm").data) == ("lm", {"train": "train.en"})


def test_files_of_a_folder_that_are_not_read_are_named() -> None:
    Path("notes.md").write_text("x", "utf-8")
    assert guess(["."]).notes == ("not used from .: notes.md",)


def test_bytes_are_no_text() -> None:
    Path("random.txt").write_bytes(bytes(range(256)) * 12)
    with pytest.raises(InputError, match="random.txt: is not text"):
        guess(["random.txt"])


def test_a_setting_is_written_for_whoever_reads_it() -> None:
    text = f"give {Setting('data', 'encoding', 'latin-1')}"
    assert with_references(text) == "give data encoding=latin-1"
    assert with_references(text, setting=lambda _, key, value: f"{key}: {value}") == "give encoding: latin-1"
