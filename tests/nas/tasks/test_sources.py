"""Formats, splits taken off, and the hub."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from nas import tasks
from nas.tasks import Prepared
from nas.tasks.files import read_text
from search_spaces import InputError
from tests.nas.tasks.conftest import Prepare, sentence

ROWS = [(sentence(i), f"c{i % 3}") for i in range(60)]
Files = dict[str, dict[str, object]]


def write(path: Path, rows: list[tuple[str, str]]) -> dict[str, object]:
    """The rows in the format of the file's ending, and the options to read them."""
    if ".jsonl" in path.name:
        text = "".join(json.dumps({"text": a, "meta": {"kind": b}}) + "\n" for a, b in rows)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
        return {"train": path, "label": "meta.kind"}
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("label", "text"), *((b, a) for a, b in rows)])
        return {"train": path}
    if path.suffix == ".tsv":
        path.write_text("".join(f"id\t{b}\t\t{a}\r\n" for a, b in rows), "utf-8")
        return {"train": path, "header": "false", "text": 4, "label": 2}
    path.write_text("".join(f"{b}:fine {a}\n\n" for a, b in rows), "latin-1")
    return {"train": path, "encoding": "latin-1", "pattern": r"(?P<label>\w+):\w+ (?P<text>.+)"}


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv", "a.tsv", "a.label"])
def test_every_format_says_the_same(name: str, prepare: Prepare, files: Files, tmp_path: Path) -> None:
    wanted = prepare("classification", files["classification"], folder="wanted").fingerprint
    options = write(tmp_path / name, ROWS)
    assert prepare("classification", options, folder="found").fingerprint == wanted


def test_quotes_in_tsv_are_ordinary(prepare: Prepare, tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\n" + '"open quote\tx\nit\'s \x85 fine"\ty\n' * 30, "utf-8")
    prepared = prepare("classification", {"train": path}, vocab_size=30)
    assert len(prepared.train) + len(prepared.valid) + len(prepared.test) == 60
    assert '"open quote' in texts(prepared, "train")


def texts(prepared: Prepared, split: str) -> list[str]:
    rows = [row for batch in prepared.split(split).in_order(1) for row in batch.tokens.tolist()]
    return [prepared.tokenizer.decode(row) for row in rows]


def test_text_keeps_its_lines_and_loses_the_mark(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\n two\x0c\n")
    assert read_text(str(tmp_path / "a.txt")) == "one\n two\x0c\n"


@pytest.mark.parametrize("given", [(), ("valid",), ("test",), ("valid", "test")])
def test_missing_splits_come_off_the_training_rows(given: tuple[str, ...], prepare: Prepare, files: Files,
                                                   tmp_path: Path) -> None:
    (tmp_path / "other.tsv").write_text("text\tlabel\nfox\tc1\n", "utf-8")
    prepared = prepare("classification", {**files["classification"], **dict.fromkeys(given, tmp_path / "other.tsv")})
    wanted = {split: 1 if split in given else 3 for split in ("valid", "test")}
    assert {"valid": len(prepared.valid), "test": len(prepared.test)} == wanted
    assert len(prepared.train) == 60 - 3 * (2 - len(given))


def test_rare_classes_stay_in_training(prepare: Prepare, tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\n" + "".join(f"{sentence(i)}\t{i if i < 40 else 0}\n" for i in range(60)), "utf-8")
    prepared = prepare("classification", {"train": path, "limit": 45})
    assert prepared.labels == tuple(str(i) for i in range(40)) and len(prepared.train) == 45


def stream(prepared: Prepared, split: str) -> str:
    return prepared.tokenizer.decode(prepared.split(split).stream.tolist())  # type: ignore[attr-defined]


def test_text_is_split_in_whole_blocks_and_nothing_is_lost(prepare: Prepare, files: Files, tmp_path: Path) -> None:
    text = (tmp_path / "text.txt").read_text("utf-8")
    prepared = prepare("lm", files["lm"])
    valid, test = stream(prepared, "valid"), stream(prepared, "test")
    assert valid in text and test in text and valid.count("\n") == test.count("\n") == 3
    assert sorted((stream(prepared, "train") + valid + test).splitlines()) == sorted(text.splitlines())


def test_limit_counts_lines_of_a_text(prepare: Prepare, files: Files) -> None:
    assert stream(prepare("lm", {**files["lm"], "limit": 20}), "train").count("\n") == 20


def test_documents_of_a_table(prepare: Prepare, files: Files) -> None:
    prepared = prepare("lm", {**files["classification"]})
    ids = prepared.train.stream.tolist()  # type: ignore[attr-defined]
    assert ids.count(2) == 54 + 1 and ids[0] == ids[-1] == 2


def test_unknown_words_and_bytes(prepare: Prepare, files: Files, tmp_path: Path) -> None:
    (tmp_path / "valid.txt").write_text("the <unk> fox \u6f22 .\n", "utf-8")
    prepared = prepare("lm", {**files["lm"], "valid": tmp_path / "valid.txt"})
    assert prepared.valid.stream.tolist().count(3) == 1 + 3  # type: ignore[attr-defined]
    pieces = [prepared.tokenizer.id_to_token(i) for i in range(4)]
    assert pieces == ["<pad>", "<bos>", "<eos>", "<unk>"]


def test_pairs_with_an_empty_side_are_left_out(prepare: Prepare, files: Files, tmp_path: Path) -> None:
    path = tmp_path / "pairs.de"
    path.write_text("\n" + path.read_text("utf-8").split("\n", 1)[1], "utf-8")
    prepared = prepare("translation", {**files["translation"], "valid": tmp_path / "pairs", "test": tmp_path / "pairs"})
    assert prepared.notes[0] == "1 of 60 pairs of train have an empty source or target and were removed"
    assert len(prepared.train) == 59


class Hub(list[dict[str, object]]):
    """A split as `datasets` has it."""

    features = {"label": SimpleNamespace(names=["bad", "good"])}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("datasets")

    def load_dataset(name: str, config: str | None) -> dict[str, Hub]:
        if name != "org/reviews":
            raise FileNotFoundError(f"no\n{name}")
        rows: list[dict[str, object]] = [
            {"text": sentence(i), "label": i % 2, "translation": {"en": sentence(i), "de": config}} for i in range(40)]
        hidden: list[dict[str, object]] = [{"text": "a", "label": -1, "translation": {"en": "a", "de": "b"}}]
        return {"train": Hub(rows), "validation": Hub(rows[:5]), "test": Hub(hidden)}

    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    return module


def test_the_hub(prepare: Prepare, hub: ModuleType) -> None:
    prepared = prepare("classification", {"hf": "org/reviews"})
    assert prepared.labels == ("bad", "good")
    assert (len(prepared.train), len(prepared.valid), len(prepared.test)) == (38, 5, 2), "hidden labels are no test"
    options = {"hf": "org/reviews", "config": "dog", "source": "translation.en", "target": "translation.de"}
    pairs = prepare("translation", options, folder="pairs")
    assert next(pairs.valid.in_order(1)).labels.shape[1] > 1


def test_the_hub_says_what_is_wrong(prepare: Prepare, hub: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="data: hf: cannot load 'org/none': no org/none"):
        prepare("lm", {"hf": "org/none"})
    with pytest.raises(InputError, match="has no column 'words'; it has: text, label, translation"):
        prepare("lm", {"hf": "org/reviews", "text": "words"})
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"hf: needs the package datasets; run pip install 'paretoformer\[datasets\]'"):
        prepare("lm", {"hf": "org/reviews"})


def test_checking_reads_the_data_as_preparing_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = tasks.get("lm")
    (tmp_path / "a.txt").write_bytes(b"\xff is latin-1\n" * 40)
    task.check_data({})
    task.check_data({"train": str(tmp_path / "a.txt"), "encoding": "latin-1"})
    with pytest.raises(InputError, match=r"data: train: .*a.txt: byte 0 \(line 1\) is not utf-8; give data enc"):
        task.check_data({"train": str(tmp_path / "a.txt")})
    with pytest.raises(InputError) as caught:
        task.check_data({"train": "/nope.txt", "valid": str(tmp_path)})
    assert [str(fault) for fault in caught.value.faults] == [
        "train: /nope.txt: no such file", f"valid: {tmp_path}: is a folder; give a file in it"]
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match="hf: needs the package datasets"):
        task.check_data({"hf": "org/reviews"})


def test_parallel_files_whose_names_differ_anywhere(prepare: Prepare, files: Files, tmp_path: Path) -> None:
    for language in ("en", "de"):
        (tmp_path / language).mkdir()
        (tmp_path / f"pairs.{language}").rename(tmp_path / language / "train.txt")
    prepared = prepare("translation", {"train": tmp_path / "*" / "train.txt", "source": "en", "target": "de"})
    assert len(prepared.train) == 54


def test_a_csv_with_another_delimiter(prepare: Prepare, tmp_path: Path) -> None:
    lines = [f'{i};"{sentence(i)};\nit says";c{i % 3}' for i in range(60)]
    (tmp_path / "a.csv").write_text("no;the review;how good\n" + "\n".join(lines), "utf-8")
    data = {"train": tmp_path / "a.csv", "text": "the review", "label": "how good"}
    with pytest.raises(InputError, match=r"has no column 'the review'; it has: no;the review;how good; is the "
                                         r"delimiter ';'\? give data delimiter=';'"):
        prepare("classification", data)
    assert prepare("classification", {**data, "delimiter": ";"}).labels == ("c0", "c1", "c2")
    with pytest.raises(InputError, match="delimiter: is ';;'; allowed: one character"):
        prepare("classification", {**data, "delimiter": ";;"})
