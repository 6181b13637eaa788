"""Preparing data: folders, spaces and contexts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nas import tasks
from search_spaces import InputError, load_space
from tests.nas.tasks.conftest import Files, Prepare, small


def test_two_may_prepare_one_folder_at_once(prepare: Prepare, files: Files, tmp_path: Path) -> None:
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda _: prepare("lm", files["lm"]).fingerprint, range(12)))
    assert len(set(found)) == 1 and len(list((tmp_path / "prepared").iterdir())) == 3


def test_a_fitted_space_finds_its_data_again(tmp_path: Path) -> None:
    space = load_space("seq2seq-small")
    first = tasks.get("translation").prepare({"size": "300"}, space, tmp_path, 0)
    assert first.space.vocab_size == 256 and "not the 4,096 of the space" in first.notes[0]
    again = tasks.get("translation").prepare({"size": "300"}, first.space, tmp_path, 0)
    assert again.fingerprint == first.fingerprint


def test_a_head_without_classes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a space with the head classifier; albert has no classes"):
        tasks.get("classification").prepare({}, load_space("albert"), tmp_path, 0)


def test_the_context_of_the_space_is_kept(prepare: Prepare, files: Files) -> None:
    prepared = prepare("classification", files["classification"], context=4)
    assert prepared.train.batch(0, 60, 0).tokens.shape[1] == 4
    note, = prepared.notes
    assert note.endswith("of 60 sequences are longer than the context of 4 and were truncated")
    pairs = prepare("translation", files["translation"], context=4, folder="pairs")
    batch = pairs.train.batch(0, 54, 0)
    assert batch.tokens.shape[1] == 4 and batch.labels.shape[1] == 4 and "of 120 sequences" in pairs.notes[0]
    assert small("lm").context == 16
