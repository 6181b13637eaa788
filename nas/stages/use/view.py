"""Shows what a model wrote or said, to a person and to a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from nas.stages.use.run import GeneratedText
from nas.tasks.answering import Answer


def generated_data(result: GeneratedText) -> dict[str, Any]:
    """A generated text for a program."""
    return asdict(result)


def generated_text(result: GeneratedText) -> str:
    """A generated text for a reader: the prompt and its continuation."""
    return result.prompt + result.text


def answers_data(answers: Iterable[Answer]) -> dict[str, Any]:
    """Answers for a program."""
    return {"texts": [asdict(answer) for answer in answers]}


def answer_lines(answers: Iterable[Answer]) -> Iterator[str]:
    """Answers for a reader, each as soon as it is there."""
    return (answer.line for answer in answers)
