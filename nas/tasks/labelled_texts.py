"""What tasks share whose rows are a text and a label: how they are read, encoded and batched."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from nas.tasks.answering import TrainedModel
from nas.tasks.base import Task
from nas.tasks.cache import Arrays
from nas.tasks.files import Row, format_of, read_rows
from nas.tasks.options import SPLITS, WHERE, Options
from nas.tasks.scoring import cut_note
from nas.tasks.sources import Rows
from nas.tasks.splits import BucketedSplit, Ragged
from nas.tasks.tokenizer import BOS, encode, encode_whole, is_own
from search_spaces.errors import Fault, InputError, Setting
from search_spaces.space.search_space import SearchSpace
from supernet.batch import Split


class LabelledTexts(Task):
    """Rows are a text and its label; a model gives one answer for each text."""

    family = "encoder"
    roles = ("text", "label")
    first_space = "encoder-small"
    embedded_vocab = 4096
    takes_tokenizer = True

    @abstractmethod
    def targets(self, rows: Rows, split: str, labels: tuple[str, ...]) -> NDArray[Any]:
        """What a model should answer to each text of a split: int32 classes, or float32 numbers."""

    def read(self, path: str, options: Options) -> list[Row]:
        """The rows of a table or of lines that match a pattern."""
        if format_of(path, options) == "text":
            table = Setting("data", "format", "tsv")
            says = f"cannot detect the columns of {path}; give {table}, csv or jsonl, or a pattern"
            raise InputError(WHERE, [Fault("format", says)])
        return read_rows(path, options, self.roles)

    def check(self, space: SearchSpace) -> None:
        """Raises InputError unless the space has a classification head."""
        super().check(space)
        if not space.n_classes:
            says = f"needs a space with the head classifier; {space.name} has no classes"
            raise InputError("", f"task {self.name} {says}")

    def cleaned(self, rows: list[Row], split: str, notes: list[str]) -> list[Row]:
        """The rows without spaces around them. Raises InputError if a row has no label."""
        n = sum(not label.strip() for _, label in rows)
        if n:
            raise InputError(WHERE, [Fault("label", f"{n:,} of {len(rows):,} rows of {split} have no label")])
        return [(text.strip(), label.strip()) for text, label in rows]

    def encode(self, rows: Rows, tokenizer: Tokenizer, labels: tuple[str, ...], context: int,
               notes: list[str]) -> Arrays:
        """`<bos>` and the text: heads that pool the first token need a special token there."""
        arrays: Arrays = {}
        n_cut = 0
        for split in SPLITS:
            texts, n = _encoded(tokenizer, [text for text, _ in rows[split]], context)
            n_cut += n
            tokens = Ragged.of(texts)
            arrays[f"{split}.tokens"], arrays[f"{split}.offsets"] = tokens
            arrays[f"{split}.labels"] = self.targets(rows, split, labels)
        notes += cut_note(n_cut, sum(map(len, rows.values())), context)
        return arrays

    def open(self, arrays: Arrays, context: int) -> Split:
        """The texts in buckets."""
        return BucketedSplit(Ragged(arrays["tokens"], arrays["offsets"]), arrays["labels"])

    def reading(self, text: str) -> Iterator[str]:
        """The line of a `snippet` that makes the tokens of a text."""
        yield f'ids = [{BOS}, *tokenizer.encode("{text}").ids]    # {BOS}: where a text begins'


def _encoded(tokenizer: Tokenizer, texts: list[str], context: int) -> tuple[list[list[int]], int]:
    """What a model reads of each text, and how many of them were cut."""
    if not is_own(tokenizer):
        found = encode_whole(tokenizer, texts, context)
        return found, sum(len(ids) == context for ids in found)
    plain = list(encode(tokenizer, texts))
    return [as_read(ids, context) for ids in plain], sum(len(ids) >= context for ids in plain)


def as_read(text: list[int], context: int) -> list[int]:
    """The model input of a text's tokens: `<bos>` and as many as fit the context."""
    return [BOS, *text[:context - 1]]


def read_by(trained: TrainedModel, ids: list[int]) -> Tensor:
    """(1, n) what a trained model reads of a text; the tokenizer of an imported one has added its own specials."""
    return torch.tensor([as_read(ids, trained.context) if trained.specials is None else ids[:trained.context]])
