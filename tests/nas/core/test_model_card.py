"""The model card: what it shows is true and runs, tables are tables, and nothing is empty."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nas.core.model_card import CARD
from nas.core.subnet import HistoryStep, Measured, Subnet
from tests.nas.families import TASKS


def tables(text: str) -> list[list[list[str]]]:
    """The cells of every table, with its head and the line below it."""
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [[re.split(r"(?<!\\)\|", line)[1:-1] for line in block.splitlines()] for block in blocks]


def check(text: str) -> None:
    for rows in tables(text):
        assert len(rows) > 2 and len({len(row) for row in rows}) == 1, rows
        assert all(re.fullmatch(r" ---:? ", cell) for cell in rows[1])
        assert all(any(row[i].strip() for row in rows[2:]) for i in range(len(rows[0]))), "a column says nothing"
    assert not re.search(r"^## .*\n\s*(?=## |\Z)", text, re.MULTILINE), "a section is empty"
    assert text.count("```") % 2 == 0 and "None" not in text and "nan" not in text and "\n\n\n" not in text


@pytest.mark.parametrize("task", TASKS)
def test_the_python_of_a_card_runs(task: str, subnets: dict[str, Path], capsys: Any,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    subnet = Subnet.open(str(subnets[task]))
    text = (subnets[task] / CARD).read_text("utf-8")
    check(text)
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(subnets[task])
    names: dict[str, Any] = {}
    exec(compile(code, CARD, "exec"), names)
    assert names["model"].arch == subnet.arch
    printed = capsys.readouterr().out.strip()
    assert task != "classification" or printed.split()[0] in subnet.facts.labels
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    from nas import cli

    for command in commands.splitlines():
        words = re.findall(r'"[^"]*"|\S+', command.partition(" #")[0])
        assert cli.main([word.strip('"') for word in words[1:]]) == 0, command


def test_a_card_tells_everything_that_was_done_and_measured(subnets: dict[str, Path]) -> None:
    subnet = Subnet.open(str(subnets["lm"]))
    before = (subnet.path / CARD).read_text("utf-8")
    assert "## Exports" not in before and "| on-lm | prefill |" in before and "measured" not in before
    settings = {"steps": 300, "teacher": "a|b", "distill": ["logits"], "nothing": None}
    facts = subnet.facts.then(HistoryStep(stage="retrain", settings=settings, metrics={"loss": 3.25}))
    metrics = {"loss": 3.5, "perplexity": None}
    facts = facts.then(HistoryStep(stage="compress", settings={"to": "int8"}, metrics=metrics))
    measured = {"latency:on-lm": Measured(predicted_ms=2.0, measured_ms=2.1, conditions={"threads": 1}),
                "latency:pi:decode": Measured(predicted_ms=None, measured_ms=7.0)}
    facts = facts.model_copy(update={"measured": measured, "exports": {"onnx": {"file": "model.onnx", "bytes": 12345}}})
    text = (subnet.write_facts(facts).path / CARD).read_text("utf-8")
    check(text)
    assert Subnet.open(str(subnet.path)).facts == facts
    for row in (r"| retrain | steps 300, teacher a\|b, distill logits | 3.25 |", "| compress | to int8 | 3.5 |",
                "| on-lm | prefill | 2 ms | 2.1 ms | +5.0% | threads 1 |", "| pi | decode |  | 7 ms |",
                "| onnx | file model.onnx, bytes 12,345 |"):
        assert row in text
    assert re.search(r"loss \(validation\) \| 3.5 \|", text), "the last step's quality is the model's"
    stages = [row[0].strip() for rows in tables(text) if rows[0][0].strip() == "step" for row in rows[2:]]
    assert stages == ["extract", "retrain", "compress"]
    assert "decoder 0" in text and f"key {subnet.arch.key[:12]}" in text
