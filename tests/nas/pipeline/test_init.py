"""`nas init`: an answer that cannot be is asked for again, and the file says where everything goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.prompt import Prompt

from nas.pipeline.init import Question, write_config
from search_spaces import InputError
from tests.nas.runs import nas

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the user types, one after the other."""
    given: list[str] = []
    left: Iterator[str] = iter(given)
    monkeypatch.setattr(Prompt, "ask", lambda question, default, **rest: next(left) or default)
    return given


def test_a_wrong_answer_is_told_and_asked_for_again(answers: list[str], capsys: Any,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardware_profiles.runtimes.xnnpack.missing", lambda: "executorch is not installed")
    answers += ["my run/x", "123", "lm", "lm-tiny", "/nope.txt", "text.txt", "cpu-xnnpack", "cpu"]
    code, out, err = nas(capsys, "init", "mine.yaml")
    assert (code, err) == (0, "")
    for says in ("'my run/x' is not allowed; allowed: letters", "/nope.txt: no such file",
                 "cpu-xnnpack cannot be used here: executorch is not installed"):
        assert [line for line in out.splitlines() if line.startswith(says)]
    found = yaml.safe_load(Path("mine.yaml").read_text("utf-8"))
    assert (found["run"], found["data"], found["devices"][0]["device"]) == ("123", {"train": "text.txt"}, "cpu")


def test_the_comment_tells_the_real_folder(answers: list[str], capsys: Any) -> None:
    Path("my runs").mkdir()
    answers += ["my runs/x", "", "", "", ""]
    assert nas(capsys, "init", "mine.yaml")[0] == 0
    text = Path("mine.yaml").read_text("utf-8")
    assert "# everything goes to my runs/x\n" in text and yaml.safe_load(text)["run"] == "my runs/x"


def test_nothing_is_written_of_answers_that_cannot_be() -> None:
    def careless(question: Question) -> str:
        return "my run/x" if "called" in question.text else question.default

    with pytest.raises(InputError, match="'my run/x' is not allowed"):
        write_config(Path("mine.yaml"), careless)
    assert not Path("mine.yaml").exists()
