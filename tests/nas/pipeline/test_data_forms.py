"""Every form of data that `nas train --data` takes, `nas run` takes as well: its dry run reads it the same way."""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from nas.cli._settings import parse_settings
from nas.pipeline.reading import parse_pipeline
from nas.tasks import get
from search_spaces import InputError, load_space
from tests.nas.runs import WORDS, refused

pytestmark = pytest.mark.usefixtures("here")
SPACES = {"lm": "lm-tiny", "classification": "encoder-small", "translation": "seq2seq-small"}


def sentence(i: int) -> str:
    return " ".join(WORDS[(i * 7 + j) % len(WORDS)] for j in range(i % 6 + 2))


def write(name: str, text: str, encoding: str = "utf-8") -> None:
    raw = text.encode(encoding)
    Path(name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)


class Split(list[dict[str, Any]]):
    """A split as `datasets` has it."""

    features = {"label": SimpleNamespace(names=["bad", "good"])}


@pytest.fixture(autouse=True)
def written(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small data set in every form."""
    texts, n = [sentence(i) for i in range(60)], range(60)
    for name in ("train", "valid"):
        write(f"{name}.txt", "\n".join(texts))
        write(f"{name}.txt.gz", "\n".join(texts))
        write(f"{name}.latin", "\n".join(f"caf\xe9 {text}" for text in texts), "latin-1")
        for language in ("en", "de"):
            write(f"{name}.{language}", "\n".join(texts))
            write(f"{name}.{language}.gz", "\n".join(texts))
            write(f"{name}-{language}.txt", "\n".join(texts))
    write("named.tsv", "sentence\tstars\n" + "\n".join(f"{texts[i]}\t{i % 3}" for i in n))
    write("bare.tsv.gz", "\n".join(f"x\t{i % 2}\t{texts[i]}" for i in n))
    write("odd.csv", "Nr;the text;class\n" + "\n".join(f'{i};"{texts[i]};\nso";c{i % 2}' for i in n))
    write("rows.jsonl", "\n".join(json.dumps({"a": {"text": texts[i]}, "label": i % 2}) for i in n))
    write("trec.label", "\n".join(f"C{i % 2}:sub caf\xe9 {texts[i]}" for i in n), "latin-1")
    write("pairs.tsv", "source\ttarget\n" + "\n".join(f"{text}\t{text}" for text in texts))
    module = ModuleType("datasets")
    rows = [{"text": texts[i], "label": i % 2, "pair": {"en": texts[i], "de": texts[i]}} for i in n]
    module.load_dataset = lambda name, config: {"train": Split(rows)}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)


FORMS = [
    ("lm", "train=train.txt"), ("lm", "train=train.txt.gz valid=valid.txt"),
    ("lm", "train=train.latin encoding=latin-1"),
    ("lm", "train=rows.jsonl text=a.text limit=30"), ("lm", "hf=org/texts config=small"), ("lm", ""),
    ("lm", "train=train.txt vocab_size=60"),
    ("classification", "train=named.tsv text=sentence label=stars"),
    ("classification", "train=bare.tsv.gz header=false text=3 label=2"),
    ("classification", "train=odd.csv delimiter=; text=the_text label=class"),
    ("classification", "train=rows.jsonl text=a.text"),
    ("classification", "train=trec.label encoding=latin-1 pattern=(?P<label>\\w+):\\S+_(?P<text>.*)"),
    ("classification", "hf=org/texts"), ("classification", ""),
    ("translation", "train=train valid=valid source=en target=de"),
    ("translation", "train=train valid=valid source=en.gz target=de.gz"),
    ("translation", "train=train-*.txt source=en target=de"),
    ("translation", "train=pairs.tsv"), ("translation", "train=pairs.tsv format=tsv limit=20"),
    ("translation", "hf=org/texts source=pair.en target=pair.de"), ("translation", "size=50 direction=en-de"),
]


@pytest.mark.parametrize(("task", "given"), FORMS)
def test_what_trains_runs(task: str, given: str, tmp_path: Path) -> None:
    data = parse_settings([each.replace("_", " ") if "vocab" not in each else each for each in given.split()], "--data")
    small = replace(load_space(SPACES[task]), vocab_size=60 if {"train", "hf"} & set(data) else 256, context=16)
    assert get(task).prepare(data, small, tmp_path / "prepared", 0).train
    asked = {"run": "p", "space": SPACES[task], "task": task}
    typed = yaml.safe_load(yaml.safe_dump(data).replace("'", "")) if "delimiter" not in data else data
    for each in (data, typed):  # as strings, and as YAML has numbers and header: false without quotes
        assert parse_pipeline(yaml.safe_dump({**asked, "data": each}), "p.yaml").data == data


@pytest.mark.parametrize(("data", "says"), [
    ("{train: train, source: en, target: fr}", "data.train: train.fr: no such file"),
    ("{train: train, source: en, target: latin}", "data.train: train.latin: byte 3 (line 1) is not utf-8; give "),
    ("{train: train, source: en, target: no}", "data: target is read as false by YAML; put it in quotes"),
    ("{train: named.tsv}", "data.train: named.tsv: has no column 'source'; it has: sentence, stars"),
    ("{train: train.txt.gz, valid: /nope, source: en, target: de}", "data.valid: /nope.en: no such file"),
])
@pytest.mark.parametrize("mode", [(), ("--dry-run",)])
def test_data_that_cannot_be_read_are_a_fault_of_the_file(mode: tuple[str, ...], data: str, says: str,
                                                          capsys: Any) -> None:
    write("p.yaml", f"{{run: p, space: seq2seq-small, task: translation, data: {data}}}")
    assert f"p.yaml: {says}" in refused(capsys, "run", "p.yaml", *mode) and not Path("runs").exists()


def test_a_table_that_is_damaged_further_down_is_told_before_the_first_stage() -> None:
    write("cut.tsv", "text\tlabel\n" + "a b\t1\n" * 50 + "no label\n")
    with pytest.raises(InputError, match=r"data\.train: cut.tsv: line 52 has 1 columns; column 2 is needed"):
        parse_pipeline("{run: p, space: encoder-small, task: classification, data: {train: cut.tsv}}", "p.yaml")
