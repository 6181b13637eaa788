"""What can be asked of `generate`, `classify` and `translate`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class GenerateRequest:
    """A text that a language model continues.

    Args:
        tokens: the most that are written.
        temperature: 0 takes the most probable token.
        top_k: draw among so many of the most probable tokens; among all by default.
        seed: the same seed writes the same text.
    """

    subnet: str
    text: str
    tokens: int = 100
    temperature: float = 0.8
    top_k: int | None = None
    seed: int | None = None


@dataclass(frozen=True)
class ClassifyRequest:
    """Texts to classify, one after the other."""

    subnet: str
    texts: Iterable[str]


@dataclass(frozen=True)
class TranslateRequest:
    """Texts to translate, one after the other."""

    subnet: str
    texts: Iterable[str]
