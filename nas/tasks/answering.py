"""Runs a trained model on text and formats its prediction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from tokenizers import Tokenizer

from supernet import Transformer


@dataclass(frozen=True)
class TrainedModel:
    """A plain model in eval mode with what its task needs to run it.

    Args:
        where: the folder it is from, for errors.
        labels: the names of its outputs, where the task has any.
        specials: the ids of an imported model's special tokens, whose tokenizer adds them to texts by itself; None for
            a model with our own tokenizer.
        scale: mean and standard deviation of the labels that it was trained on, where it predicts a number.
        paired: whether it was trained on pairs of texts.
    """

    where: str
    model: Transformer
    tokenizer: Tokenizer
    labels: tuple[str, ...] = ()
    scale: tuple[float, float] | None = None
    specials: Mapping[str, int] | None = None
    paired: bool = False

    @property
    def context(self) -> int:
        """The most tokens it reads."""
        return self.model.arch.context


@dataclass(frozen=True)
class Answer(ABC):
    """The prediction of a model for a text; a subclass has more fields, which JSON output contains."""

    text: str

    @property
    @abstractmethod
    def line(self) -> str:
        """A line of text for a terminal."""
