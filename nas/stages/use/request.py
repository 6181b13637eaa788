"""The requests of `generate`, `predict`, `classify` and `translate`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class GenerateRequest:
    """A text that a language model continues.

    Args:
        tokens: maximum number of new tokens.
        temperature: 0 takes the most probable token.
        top_k: sample from the k most probable tokens; from all by default.
        seed: the same seed generates the same text.
    """

    subnet: str
    text: str
    tokens: int = 100
    temperature: float = 0.8
    top_k: int | None = None
    seed: int | None = None


@dataclass(frozen=True)
class PredictRequest:
    """Texts to run a model on, one after the other.

    Args:
        command: refuse a model whose task has a different command; by default any task is accepted.
    """

    subnet: str
    texts: Iterable[str]
    command: str | None = None
