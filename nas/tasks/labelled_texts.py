"""What tasks share whose rows are a text and a label: how they are read, encoded and batched."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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
from nas.tasks.tokenizer import BOS, EOS, BroughtTokenizer, encode
from search_spaces.errors import Fault, InputError, Setting
from search_spaces.space.search_space import SearchSpace
from supernet.batch import Split


class LabelledTexts(Task):
    """Rows are a text and its label, or two texts and their label; a model gives one answer for each row."""

    family = "encoder"
    head = "classifier"
    roles = ("text", "label")
    optional_roles = ("pair",)
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
            message = f"cannot detect the columns of {path}; give {table}, csv or jsonl, or a pattern"
            raise InputError(WHERE, [Fault("format", message)])
        return read_rows(path, options, (*self.roles, *self.optional_roles)[:len(options.columns)])

    def check(self, space: SearchSpace) -> None:
        """Raises InputError unless the space has a classification head."""
        super().check(space)
        if not space.n_classes:
            message = f"needs a space with the head classifier; {space.name} has no classes"
            raise InputError("", f"task {self.name} {message}")

    def cleaned(self, rows: list[Row], split: str, notes: list[str]) -> list[Row]:
        """The rows without spaces around them. Raises InputError if a row has no label."""
        n = sum(not row[1].strip() for row in rows)
        if n:
            message = f"{n:,} of {len(rows):,} rows of {split} have no label; remove them, or choose another column"
            raise InputError(WHERE, [Fault("label", message)])
        return [tuple(cell.strip() for cell in row) for row in rows]

    def texts(self, rows: list[Row]) -> Iterator[str]:
        """Both texts of a pair."""
        return (text for row in rows for text in _texts(row))

    def encode(self, rows: Rows, tokenizer: Tokenizer, labels: tuple[str, ...], context: int,
               notes: list[str]) -> Arrays:
        """`<bos>` and the text: heads that pool the first token need a special token there; `<eos>` inside a pair."""
        read = {split: _own_pairs(tokenizer, rows[split], context) if self._paired(rows) else
                _own_texts(tokenizer, rows[split], context) for split in SPLITS}
        return self._arrays(rows, read, labels, context, notes)

    def encode_brought(self, rows: Rows, brought: BroughtTokenizer, labels: tuple[str, ...], context: int,
                       notes: list[str]) -> Arrays:
        """Texts or pairs as the tokenizer's own template puts them together."""
        read = {}
        for split in SPLITS:
            encodings = brought.encoded([_texts(row) if self._paired(rows) else row[0] for row in rows[split]], context)
            read[split] = [TextRead(encoding.ids, encoding.type_ids if self._paired(rows) else [],
                                    bool(encoding.overflowing))
                           for encoding in encodings]
        return self._arrays(rows, read, labels, context, notes)

    def _paired(self, rows: Rows) -> bool:
        return len(rows["train"][0]) > len(self.roles)

    def _arrays(self, rows: Rows, read: Mapping[str, Sequence[TextRead]], labels: tuple[str, ...], context: int,
                notes: list[str]) -> Arrays:
        arrays: Arrays = {}
        for split, texts in read.items():
            arrays[f"{split}.tokens"], arrays[f"{split}.offsets"] = Ragged.of([text.ids for text in texts])
            if self._paired(rows):
                arrays[f"{split}.types"] = Ragged.of([text.types for text in texts]).ids
            arrays[f"{split}.labels"] = self.targets(rows, split, labels)
        n_cut = sum(text.cut for texts in read.values() for text in texts)
        notes += cut_note(n_cut, sum(map(len, rows.values())), context)
        return arrays

    def open(self, arrays: Arrays, context: int) -> Split:
        """The texts in buckets."""
        types = Ragged(arrays["types"], arrays["offsets"]) if "types" in arrays else None
        return BucketedSplit(Ragged(arrays["tokens"], arrays["offsets"]), arrays["labels"], types=types)

    def reading(self, text: str) -> Iterator[str]:
        """The line of a `snippet` that makes the tokens of a text."""
        yield f'ids = [{BOS}, *tokenizer.encode("{text}").ids]    # {BOS}: where a text begins'


class TextRead(NamedTuple):
    """What a model reads of a text or of a pair, the token types of a pair, and whether something was cut off."""

    ids: list[int]
    types: list[int]
    cut: bool


def _texts(row: Row) -> Row:
    """The text of a row, or both."""
    return row[:1] + row[2:]


def _own_texts(tokenizer: Tokenizer, rows: list[Row], context: int) -> list[TextRead]:
    encoded = encode(tokenizer, [row[0] for row in rows])
    return [TextRead(as_read(ids, context), [], len(ids) >= context) for ids in encoded]


def _own_pairs(tokenizer: Tokenizer, rows: list[Row], context: int) -> list[TextRead]:
    pairs = zip(*(encode(tokenizer, list(texts)) for texts in zip(*map(_texts, rows))))
    return [pair_as_read(first, second, context) for first, second in pairs]


def pair_as_read(first: list[int], second: list[int], context: int) -> TextRead:
    """The model input of two texts: `<bos>`, the first, `<eos>`, the second; the longer one is cut first."""
    room = context - 2
    most = max(room - min(len(first), len(second)), -(-room // 2))
    n = min(len(first), most)
    one, other = first[:n], second[:room - n]
    ids = [BOS, *one, EOS, *other]
    return TextRead(ids, [0] * (len(one) + 2) + [1] * len(other), len(ids) < len(first) + len(second) + 2)


def as_read(text: list[int], context: int) -> list[int]:
    """The model input of a text's tokens: `<bos>` and as many as fit the context."""
    return [BOS, *text[:context - 1]]


def logits_of(trained: TrainedModel, text: str, ids: list[int]) -> Tensor:
    """The logits of a trained model for a text, or for two texts separated by a tab. Raises InputError.

    The tokenizer of an imported model has added its own special tokens.
    """
    if not trained.paired:
        read = as_read(ids, trained.context) if trained.specials is None else ids[:trained.context]
        outputs: Tensor = trained.model(torch.tensor([read]))[0]
        return outputs
    first, tab, second = text.partition("\t")
    if not tab:
        raise InputError(trained.where, "is a model for pairs of texts; separate the two by a tab")
    if trained.specials is None:
        one, other = encode(trained.tokenizer, [first.strip(), second.strip()])
        pair = pair_as_read(one, other, trained.context)
        tokens, types = pair.ids, pair.types
    else:
        brought = BroughtTokenizer(trained.tokenizer, trained.specials)
        encoding = brought.encoded([(first.strip(), second.strip())], trained.context)[0]
        tokens, types = encoding.ids, encoding.type_ids
    with_types = torch.tensor([types]) if trained.model.arch.n_types > 1 else None
    paired: Tensor = trained.model(torch.tensor([tokens]), types=with_types)[0]
    return paired
