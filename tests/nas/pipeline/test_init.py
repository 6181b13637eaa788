"""`nas init`: looks at the user's files, asks for what is open, and writes a file that `nas run` takes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.prompt import Prompt

from nas.pipeline import answers as answers_of
from nas.pipeline.init import Question, write_config
from nas.pipeline.reading import read_pipeline
from search_spaces import InputError
from tests.nas.runs import WORDS, nas, refused

pytestmark = pytest.mark.usefixtures("here")


def sentence(i: int) -> str:
    return " ".join(WORDS[(i * 7 + j * (i % 5 + 1)) % len(WORDS)] for j in range(i % 6 + 2))


TEXTS = [sentence(i) for i in range(60)]


def write(name: str, text: str, encoding: str = "utf-8") -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    raw = text.encode(encoding)
    Path(name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the user types, one after the other."""
    given: list[str] = []
    left: Iterator[str] = iter(given)
    monkeypatch.setattr("nas.cli._asking.is_terminal", lambda: True)
    monkeypatch.setattr(Prompt, "ask", lambda question, default, **rest: next(left) or default)
    return given


def made(capsys: Any, *argv: str) -> dict[str, Any]:
    """The config that a call writes; it is one that `nas run` takes."""
    code, out, err = nas(capsys, "init", "made.yaml", *argv)
    assert (code, err) == (0, ""), err
    read_pipeline(Path("made.yaml"))
    return {**yaml.safe_load(Path("made.yaml").read_text("utf-8")), "out": out}


def test_a_wrong_answer_is_told_and_asked_for_again(answers: list[str], capsys: Any,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardware_profiles.runtimes.xnnpack.missing", lambda: "executorch is not installed")
    answers += ["my run/x", "123", "lm", "lm-none", "lm-tiny", "/nope.txt", "text.txt", "cpu-xnnpack", "cpu"]
    found = made(capsys)
    for says in ("'my run/x' is not allowed; allowed: letters", "/nope.txt: no such file",
                 "cpu-xnnpack cannot be used here: executorch is not installed"):
        assert [line for line in found["out"].splitlines() if line.startswith(says)]
    assert (found["run"], found["data"]["train"], found["devices"][0]["device"]) == ("123", "text.txt", "cpu")


def test_the_comment_tells_the_real_folder(answers: list[str], capsys: Any) -> None:
    Path("my runs").mkdir()
    answers += ["my runs/x", "", "", "", ""]
    assert made(capsys)["run"] == "my runs/x"
    assert "# everything goes to my runs/x\n" in Path("made.yaml").read_text("utf-8")


def test_nothing_is_written_of_answers_that_cannot_be() -> None:
    def careless(question: Question) -> str:
        return "my run/x" if question.key == "run" else question.default

    with pytest.raises(InputError, match="'my run/x' is not allowed"):
        write_config(Path("mine.yaml"), lambda question: question.check(careless(question)) and "" or "")
    assert not Path("mine.yaml").exists()


def test_only_devices_that_are_available_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardware_profiles.runtimes.xnnpack.missing", lambda: "executorch is not installed")
    seen: dict[str, Question] = {}

    def ask(question: Question) -> str:
        seen[question.key] = question
        return question.default

    write_config(Path("mine.yaml"), ask)
    assert "cpu" in seen["device"].allowed and "cpu-xnnpack" not in seen["device"].allowed
    assert "cpu-xnnpack: executorch is not installed" in seen["device"].note
    assert "raspberry-pi-4" not in seen["device"].allowed
    assert "raspberry-pi-4: not contacted; nas devices --check does" in seen["device"].note


FORMS = {
    "plain.txt": ("\n".join(TEXTS), "lm", {}),
    "plain.txt.gz": ("\n".join(TEXTS), "lm", {}),
    "caf.txt": ("\n".join(f"caf\xe9 {text}" for text in TEXTS), "lm", {"encoding": "latin-1"}),
    "windows.txt": ("\n".join(f"\u201e{text}\u201c \u2013 5 \u20ac" for text in TEXTS), "lm", {"encoding": "cp1252"}),
    "named.tsv": ("sentence\tlabel\n" + "\n".join(f"{text}\t{i % 3}" for i, text in enumerate(TEXTS)),
                  "classification", {"text": "sentence", "label": "label"}),
    "bare.tsv": ("\n".join(f"gj{i}\t{i % 2}\t\t{text} indeed" for i, text in enumerate(TEXTS)), "classification",
                 {"header": "false", "text": "4", "label": "2"}),
    "odd.csv": ("Nr;What they said;Who said it\n" + "\n".join(f'{i};"{text};\nso long";c{i % 3}'
                                                              for i, text in enumerate(TEXTS)),
                "classification", {"delimiter": ";", "text": "What they said", "label": "Who said it"}),
    "piped.txt": ("text|stars\n" + "\n".join(f"{text}, yes|{i % 5}" for i, text in enumerate(TEXTS)), "classification",
                  {"format": "csv", "delimiter": "|", "text": "text", "label": "stars"}),
    "rows.jsonl": ("\n".join(json.dumps({"doc": {"body": text}, "y": i % 2}) for i, text in enumerate(TEXTS)),
                   "classification", {"text": "doc.body", "label": "y"}),
    "only.jsonl": ("\n".join(json.dumps({"id": i, "body": text}) for i, text in enumerate(TEXTS)), "lm",
                   {"text": "body"}),
    "trec.label": ("\n".join(f"C{i % 3}:sub{i % 4} caf\xe9 {text}" for i, text in enumerate(TEXTS)), "classification",
                   {"encoding": "latin-1", "pattern": r"(?P<label>[^\s:]+):\S+ (?P<text>.*)"}),
    "fast.txt": ("\n".join(f"__label__c{i % 3} {text}" for i, text in enumerate(TEXTS)), "classification",
                 {"pattern": r"__label__(?P<label>\S+)\s+(?P<text>.*)"}),
    "pairs.tsv": ("en\tde\n" + "\n".join(f"{text}\tder {text}" for text in TEXTS), "translation",
                  {"source": "en", "target": "de"}),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_file_is_understood_without_a_question(name: str, capsys: Any) -> None:
    text, task, expected = FORMS[name]
    write(name, text, expected.get("encoding", "utf-8"))
    found = made(capsys, "--data", name)
    found["data"].pop("vocab_size")
    assert (found["task"], found["data"]) == (task, {"train": name, **expected})
    assert WORDS[0] in found["out"], "the first rows are shown"
    assert f"task {task}" in found["out"]


@pytest.mark.parametrize(("files", "given", "expected"), [
    (("c/train.en.gz", "c/train.de.gz", "c/val.en.gz", "c/val.de.gz"), ("c",),
     {"train": "c/train", "valid": "c/val", "source": "en.gz", "target": "de.gz"}),
    (("c/train.deutsch.txt", "c/train.english.txt"), ("c",),
     {"train": "c/train", "source": "deutsch.txt", "target": "english.txt"}),
    (("x.de", "x.en"), ("x.de", "x.en"), {"train": "x", "source": "de", "target": "en"}),
    (("x.de", "x.en"), ("x.en",), {"train": "x", "source": "en", "target": "de"}),
    (("en/train.txt", "fr/train.txt", "en/test.txt", "fr/test.txt"), ("en/train.txt", "fr/train.txt"),
     {"train": "*/train.txt", "test": "*/test.txt", "source": "en", "target": "fr"}),
    (("english.txt", "german.txt"), ("english.txt", "german.txt"),
     {"train": "*.txt", "source": "english", "target": "german"}),
])
def test_parallel_files(files: tuple[str, ...], given: tuple[str, ...], expected: dict[str, str], capsys: Any) -> None:
    for name in files:
        write(name, "\n".join(TEXTS))
    found = made(capsys, *(each for path in given for each in ("--data", path)))
    found["data"].pop("vocab_size")
    assert (found["task"], found["data"]) == ("translation", expected)
    assert "column" not in found["out"]
    assert ("Which file is the source? Assumed: " in found["out"]) == (given == ("c",)), "only a folder is ambiguous"


def test_what_is_open_is_asked(answers: list[str], capsys: Any) -> None:
    lines = [f"{text} {text}\t{text} or so it was\t{i % 2}\t{i % 3}" for i, text in enumerate(TEXTS)]
    write("two.tsv", "title\tbody\tlabel\tclass\n" + "\n".join(lines))
    answers += ["r", "classification", "title", "fridge", "class", "", ""]
    found = made(capsys, "--data", "two.tsv")
    assert found["data"]["text"] == "title" and found["data"]["label"] == "class"
    assert "'fridge' is not allowed; allowed: body, label, class" in found["out"]


def test_a_regression_is_offered_for_numbers_only(monkeypatch: pytest.MonkeyPatch, answers: list[str],
                                                  capsys: Any) -> None:
    offered: list[tuple[str, ...]] = []
    task_of = answers_of._task
    monkeypatch.setattr(answers_of, "_task", lambda detected, ask, options: task_of(
        detected, lambda key, text, default, allowed: offered.append(allowed) or default, options))
    for i, label in enumerate(("urgent", "3")):
        write(f"{i}.csv", "text,label\n" + "\n".join(f"{text} or so it was,{label if j % 2 else '1'}{label}"
                                                     for j, text in enumerate(TEXTS)))
        answers += ["r", "", "", ""]
        made(capsys, "--data", f"{i}.csv")
        Path("made.yaml").unlink()
    assert ["regression" in names for names in offered] == [False, True]


def test_a_default_that_is_a_guess_is_named_with_its_alternatives(capsys: Any) -> None:
    write("two.csv", "id;Quelle;Urteil;Kommentar\n" + "\n".join(f"{i};q{i % 2};u{i % 3};{text} or so it was"
                                                                for i, text in enumerate(TEXTS)))
    found = made(capsys, "--data", "two.csv")
    assert found["data"]["label"] == "Quelle"
    assert ("Which column is the label? Assumed: Quelle; to choose another (id, Urteil), give --data label=NAME"
            in " ".join(found["out"].split()))


@pytest.mark.parametrize("argv", [(), ("--data", "label=Urteil")])
def test_a_column_of_labels_may_not_have_empty_cells(argv: tuple[str, ...], capsys: Any) -> None:
    write("gaps.csv", "Kommentar,Urteil\n" + "\n".join(f"{text} or so it was,{f'u{i % 3}' if i % 20 else ''}"
                                                       for i, text in enumerate(TEXTS)))
    says = refused(capsys, "init", "made.yaml", "--data", "gaps.csv", *argv)
    assert "rows of train have no label; remove them, or choose another column" in says


def test_named_columns_decide_the_task(capsys: Any) -> None:
    write("many.csv", "body,kind\n" + "\n".join(f"{text} or so it was,k{i % 40}" for i, text in enumerate(TEXTS)))
    assert made(capsys, "--data", "many.csv")["task"] == "lm"
    Path("made.yaml").unlink()
    found = made(capsys, "--data", "many.csv", "--data", "label=kind")
    assert (found["task"], found["data"]["label"]) == ("classification", "kind")


def test_options_answer_every_question(capsys: Any) -> None:
    write("two.tsv", "a\tb\tc\n" + "\n".join(f"{text}\t{text} now\t{i % 2}" for i, text in enumerate(TEXTS)))
    Path("mine.yaml").write_text("{schema_version: 1, name: mine, kind: cpu, runtime: torch-eager}", "utf-8")
    found = made(capsys, "--data", "two.tsv", "--data", "text=a", "--task", "lm", "--space", "space.yaml", "--device",
                 "mine.yaml", "--run", "other")
    assert (found["space"], found["devices"][0]["device"], found["run"]) == ("space.yaml", "mine.yaml", "other")
    assert (found["task"], found["data"]["text"]) == ("lm", "a")


def test_a_split_that_cannot_be_read_as_the_others_is_left_out(capsys: Any) -> None:
    write("s/train.tsv", "text\tlabel\n" + "\n".join(f"{text}\t{i % 3}" for i, text in enumerate(TEXTS)))
    write("s/test.tsv", "index\tsentence\n1\twithout labels\n")
    found = made(capsys, "--data", "s")
    assert "test" not in found["data"] and "s/test.tsv: not used (s/test.tsv: has no column 'text'" in found["out"]


@pytest.mark.parametrize(("argv", "says"), [
    (("--data", "/nope"), "/nope: no such file or folder"),
    (("--data", "text.txt", "--task", "classification"), "cannot detect the columns of text.txt"),
    (("--space", "encoder-small"), "task lm needs a space of the family lm; encoder-small is encoder"),
    (("--device", "fridge"), "'fridge' is unknown"),
    (("--data", "text.txt", "--data", "text.txt", "--data", "text.txt"), "3 paths are given"),
    (("--data", "empty"), "it is unclear which file to train on"),
])
def test_what_cannot_be_is_told_and_nothing_is_written(argv: tuple[str, ...], says: str, capsys: Any) -> None:
    Path("empty").mkdir()
    assert says in refused(capsys, "init", "made.yaml", *argv) and not Path("made.yaml").exists()


def test_input_that_ends_gets_a_sentence(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*_: object, **rest: object) -> str:
        raise EOFError

    monkeypatch.setattr("nas.cli._asking.is_terminal", lambda: True)
    monkeypatch.setattr(Prompt, "ask", ended)
    assert "the input ended at the question 'Name of the run?'; give --run, or" in refused(capsys, "init", "made.yaml")
