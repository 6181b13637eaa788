"""Every mistake is told in a sentence that names what was wrong."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from search_spaces import InputError
from tests.nas.tasks.conftest import Prepare

Files = dict[str, dict[str, object]]
TABLE = "text\tlabel\n" + "a fox\tx\na dog\ty\n" * 30


def told(prepare: Prepare, task: str, data: dict[str, object], **space: int) -> str:
    with pytest.raises(InputError) as error:
        prepare(task, data, **space)
    return str(error.value)


def test_files_without_endings_are_told_once(prepare: Prepare) -> None:
    message = told(prepare, "translation", {"train": "x", "valid": "y"})
    assert [line.split(":")[1] for line in message.splitlines()] == [" source", " target"]


def test_embedded_data_that_are_too_few(prepare: Prepare) -> None:
    says = told(prepare, "translation", {"size": 2}, vocab_size=4096)
    assert "the bundled data are meant for 256 tokens, but the training text yields only" in says


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.tsv"
    path.write_text(TABLE, "utf-8")
    return path


OPTIONS: list[tuple[str, dict[str, object], str]] = [
    ("lm", {"tarin": "x"}, "data: tarin: unknown; allowed: train, valid, test, format, encoding, header, delimiter, "
                           "pattern, text, hf, config, vocab_size, limit"),
    ("lm", {"direction": "en-de"}, "direction: unknown"),
    ("lm", {"train": " "}, "train: has no value"),
    ("lm", {"valid": "x"}, "valid: needs train=PATH as well"),
    ("lm", {"text": "x"}, "text: needs train=PATH or hf=NAME as well"),
    ("lm", {"config": "x"}, "config: needs hf=NAME as well"),
    ("lm", {"train": "x", "hf": "y"}, "hf: give either train or hf, not both"),
    ("lm", {"train": "x", "format": "xml"}, "format: unknown 'xml'; allowed: text, tsv, csv, jsonl, pattern"),
    ("lm", {"train": "x", "header": "no"}, "header: unknown 'no'; allowed: true, false"),
    ("lm", {"train": "x", "encoding": "utf-9"}, "encoding: unknown 'utf-9'; for example utf-8"),
    ("lm", {"train": "x", "encoding": "rot13"}, "encoding: unknown 'rot13'"),
    ("lm", {"vocab_size": "many"}, "vocab_size: is 'many'; allowed: a whole number from 1"),
    ("lm", {"limit": "0"}, "limit: is '0'; allowed: a whole number from 1"),
    ("translation", {"size": "-5"}, "size: is '-5'; allowed: a whole number from 1"),
    ("translation", {"size": "1000000"}, "size: is 1,000,000; allowed: at most 998,000"),
    ("translation", {"direction": "en-fr"}, "direction: unknown 'en-fr'; allowed: de-en, en-de"),
    ("translation", {"train": "x", "size": "5"}, "size: is for the bundled data only"),
    ("translation", {"train": "x"}, "source: is missing; source=en target=de reads the files PATH.en and PATH.de"),
    ("classification", {"train": "x", "pattern": "(?P<text>.+)"}, "'(?P<text>.+)' has no group (?P<label>...)"),
    ("classification", {"train": "x", "pattern": "("}, "pattern: '(' is not a regular expression: missing )"),
    ("classification", {"train": "x", "format": "pattern"}, "pattern: is missing; format=pattern needs"),
    ("classification", {"train": "x", "format": "csv", "pattern": "x"}, "pattern: cannot be combined with format=csv"),
    ("classification", {"train": "x", "header": "false", "text": "4"}, "label: is None; header=false needs a column"),
    ("classification", {"train": "x", "header": "false", "text": "4", "label": "0"}, "label: is '0'; header=false"),
    ("classification", {"train": "x.label"}, "format: cannot detect the columns of x.label; give data format=tsv"),
    ("lm", {"train": "gone.txt"}, "gone.txt: no such file"),
    ("lm", {"train": "."}, ".: is a folder; give a file in it"),
]


@pytest.mark.parametrize("task,data,says", OPTIONS, ids=[says[:40] for _, _, says in OPTIONS])
def test_options(task: str, data: dict[str, object], says: str, prepare: Prepare) -> None:
    assert says in told(prepare, task, data)


def test_all_faults_come_together(prepare: Prepare) -> None:
    message = told(prepare, "lm", {"tarin": "x", "limit": "x", "valid": "x", "format": "xml"})
    keys = [line.split(":")[1].strip() for line in message.splitlines()]
    assert keys == ["tarin", "valid", "format", "format", "limit"]
    message = told(prepare, "lm", {"train": "gone.txt", "valid": "lost.txt"})
    assert message.splitlines() == ["data: train: gone.txt: no such file", "data: valid: lost.txt: no such file"]


CONTENTS: list[tuple[str, bytes, dict[str, object], str]] = [
    ("a.tsv", b"", {}, "a.tsv: is empty"),
    ("a.tsv", b" \n\n", {}, "a.tsv: is empty"),
    ("a.tsv", b"text\tlabel\n", {}, "a.tsv: has no rows"),
    ("a.tsv", b"sentence\tlabel\na\tb\n", {}, "a.tsv: has no column 'text'; it has: sentence, label"),
    ("a.tsv", b"text\tlabel\na\tb\nonly one\n", {}, "a.tsv: line 3 has 1 columns; column 2 is needed"),
    ("a.tsv", b"a\tb\n\nc\n", {"header": "false", "text": 1, "label": 2}, "a.tsv: line 3 has 1 columns"),
    ("a.tsv", b"text\tlabel\na\tb\ncaf\xe9\tb\n", {},
     "a.tsv: byte 18 (line 3) is not utf-8; give data encoding=latin-1"),
    ("a.csv", b'text,label\n"open,b\n', {}, "a.csv: line 2 is not CSV: unexpected end of data"),
    ("a.jsonl", b'{"text": "a", "label": 1}\n{"text": \n', {}, "a.jsonl: line 2: not valid JSON at line 1, column 10"),
    ("a.jsonl", b'{"text": "a", "label": 1}\n{"text": "b"}\n', {},
     "a.jsonl: line 2: has no column 'label'; it has: text"),
    ("a.jsonl", b'{"text": "a", "label": null}\n', {}, "line 1: column 'label' contains NoneType"),
    ("a.jsonl", b'[1]\n', {}, "line 1: has no column 'text'; it has: no columns"),
    ("a.label", b"X:y some text\nno label here\n", {"pattern": r"(?P<label>\w+):\w+ (?P<text>.+)"},
     "a.label: line 2 does not match '(?P<label>\\\\w+):\\\\w+ (?P<text>.+)': 'no label here'"),
    ("a.tsv.gz", TABLE.encode(), {}, "a.tsv.gz: is not a complete gzip file: Not a gzipped file"),
    ("a.tsv.gz", gzip.compress(TABLE.encode())[:-12], {}, "a.tsv.gz: is not a complete gzip file"),
    ("a.tsv.gz", gzip.compress(TABLE.encode())[:20] + b"\0\0\0\0" * 9, {}, "a.tsv.gz: is not a complete gzip file"),
    ("a.tsv", b"text\tlabel\n" + b"a\tx\n" * 30, {}, "label: the training rows have only the class 'x'"),
    ("a.tsv", TABLE.encode() + b"a cat\t \n", {}, "label: 1 of 55 rows of train have no label"),
    ("a.tsv", b"text\tlabel\na\tx\nb\ty\n", {}, "train: 2 training examples are too few to split; give data "
                                              "valid=PATH and data test=PATH"),
]


@pytest.mark.parametrize("name,content,data,says", CONTENTS, ids=[says[:40] for _, _, _, says in CONTENTS])
def test_contents(name: str, content: bytes, data: dict[str, object], says: str, prepare: Prepare,
                  tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    message = told(prepare, "classification", {"train": tmp_path / name, **data})
    assert says in message and "\n" not in message


def test_a_class_only_in_validation(prepare: Prepare, table: Path, tmp_path: Path) -> None:
    other = tmp_path / "valid.tsv"
    other.write_text("text\tlabel\na\tz\nb\tx\n", "utf-8")
    message = told(prepare, "classification", {"train": table, "valid": other})
    assert message == "data: label: the class 'z' is in valid but not in train"


def test_parallel_files_of_unequal_length(prepare: Prepare, files: Files, tmp_path: Path) -> None:
    (tmp_path / "pairs.de").write_text("eins\nzwei\n", "utf-8")
    assert "pairs.en: has 60 lines but" in (says := told(prepare, "translation", files["translation"]))
    assert "pairs.de has 2; each line" in says


def test_too_large_and_too_small_vocabularies(prepare: Prepare, files: Files) -> None:
    says = told(prepare, "lm", files["lm"], vocab_size=4096)
    found = re.fullmatch(r"data: vocab_size: the space has 4,096 tokens, but the training text yields only (\d+); "
                         r"give data vocab_size=\1 or more text; a space around a trained model needs init", says)
    assert found
    assert prepare("lm", {**files["lm"], "vocab_size": found[1]}, vocab_size=4096).space.vocab_size == int(found[1])
    assert "you requested 5,000 tokens" in told(prepare, "lm", {**files["lm"], "vocab_size": 5000}, folder="x")
    assert "vocab_size: 9 is too small" in told(prepare, "lm", {**files["lm"], "vocab_size": 9}, folder="x")


def test_text_that_is_too_short_to_split(prepare: Prepare, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("word", "utf-8")
    says = told(prepare, "lm", {"train": tmp_path / "a.txt"})
    assert says == "data: train: 1 pieces of text are too few to split; give data valid=PATH and data test=PATH"


def test_other_options_for_a_prepared_folder(prepare: Prepare, files: Files) -> None:
    prepare("lm", files["lm"])
    says = told(prepare, "lm", {**files["lm"], "limit": 7})
    assert "limit: is '7', but the folder was prepared with it not given" in says
    assert "space.context: is 8, but the folder was prepared with 16" in told(prepare, "lm", files["lm"], context=8)
    assert "seed: is 4, but" in told(prepare, "lm", files["lm"], seed=4)
    assert "space.vocab_size: is 50, but" in told(prepare, "lm", files["lm"], vocab_size=50)
    assert "task: is 'classification'" in told(prepare, "classification", files["classification"])


@pytest.mark.parametrize("name", ["data.json", "data.safetensors", "tokenizer.json"])
def test_a_damaged_folder(name: str, prepare: Prepare, files: Files, tmp_path: Path) -> None:
    prepare("lm", files["lm"])
    path = tmp_path / "prepared" / name
    whole = path.read_bytes()
    for damaged in (whole[:-30], b"", b"{}", whole[:40] + b"!" + whole[41:] if name != "data.json" else b"[1]"):
        path.write_bytes(damaged)
        says = told(prepare, "lm", files["lm"])
        assert f"{name}: " in says and "; delete " in says and "\n" not in says
    if name != "data.json":
        path.unlink()
        assert f"{name}: cannot be read" in told(prepare, "lm", files["lm"])


def test_a_folder_of_a_later_version(prepare: Prepare, files: Files, tmp_path: Path) -> None:
    prepare("lm", files["lm"])
    path = tmp_path / "prepared" / "data.json"
    path.write_text(path.read_text("utf-8").replace('"schema_version": 1', '"schema_version": 2'), "utf-8")
    assert "has schema_version 2; allowed: 1" in told(prepare, "lm", files["lm"])


def test_a_folder_that_cannot_be_written(prepare: Prepare, files: Files, tmp_path: Path) -> None:
    assert "cannot be written" in told(prepare, "lm", files["lm"], folder="text.txt")
    assert (tmp_path / "text.txt").is_file()
