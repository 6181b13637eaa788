"""Shows generated text and predictions in a terminal, or as JSON data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from nas.stages.use.run import GeneratedText
from nas.tasks.answering import Answer


def generated_data(result: GeneratedText) -> dict[str, Any]:
    """A generated text for JSON output."""
    return asdict(result)


def generated_text(result: GeneratedText) -> str:
    """A generated text: the prompt and its continuation."""
    return result.prompt + result.text


def answers_data(answers: Iterable[Answer]) -> dict[str, Any]:
    """Predictions for JSON output."""
    return {"texts": [asdict(answer) for answer in answers]}


def answer_lines(answers: Iterable[Answer]) -> Iterator[str]:
    """Predictions as text, each as soon as it is available."""
    return (answer.line for answer in answers)
