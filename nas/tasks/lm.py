"""Language modelling: predict the next token of a text."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from nas.tasks.base import Prepared, Task, Watch, unwatched
from nas.tasks.cache import Arrays
from nas.tasks.embedded import documents
from nas.tasks.files import Row, format_of, read_rows, read_text
from nas.tasks.options import SPLITS, WHERE, Options
from nas.tasks.scoring import summed_loss
from nas.tasks.sources import Rows, take_off, too_few
from nas.tasks.splits import PackedSplit
from nas.tasks.tokenizer import EOS, BroughtTokenizer, encode
from search_spaces.architecture import Architecture
from search_spaces.errors import Fault, InputError
from supernet.batch import Batch, Split

BLOCKS = 20
"""The text is divided into this many blocks; a missing split is one of them."""


class LanguageModelling(Task):
    """Rows are documents; a plain text file is one."""

    name = "lm"
    help = "predict the next token of a text"
    family = "lm"
    title, first_space, command, sample = "Language model", "lm-tiny", "generate", "Once upon a time"
    roles = ("text",)
    embedded_vocab = 8192
    takes_tokenizer = True
    metrics = {"loss": False, "perplexity": False}
    learning_rate = 1e-2
    """Validation loss of lm-tiny's largest / smallest architecture after 400 steps: 5.02 / 5.27 at 0.001, 4.50 / 4.85
    at 0.003, 4.26 / 4.60 at 0.01, 4.25 / 4.56 at 0.02."""
    from_loss = {"loss": float, "perplexity": lambda loss: math.exp(loss) if loss < 700 else math.inf}

    def read(self, path: str, options: Options) -> list[Row]:
        """One document of a plain file, or one of each row of a table."""
        if format_of(path, options) == "text":
            return [(read_text(path, options.encoding),)]
        return read_rows(path, options, self.roles)

    def embedded(self, options: Options, seed: int) -> Rows:
        """Python's own help, split by document."""
        return take_off({"train": [(text,) for _, text in documents()]}, seed, self.must_stay)

    def split_off(self, rows: Rows, seed: int) -> Rows:
        """A missing split is a block of neighbouring documents, or of lines where there are few documents.

        Single lines drawn at random would leave both neighbours of every validation line in training.
        """
        missing = [split for split in SPLITS if split not in rows]
        if not missing:
            return rows
        units = _units([text for (text,) in rows["train"]])
        n = min(BLOCKS, len(units))
        if n <= len(missing):
            raise too_few(missing, f"{n} pieces of text")
        rng = random.Random(f"splits {seed}")  # noqa: S311 - repeatable, not secret
        chosen = dict(zip(rng.sample(range(n), len(missing)), missing))
        parts: dict[str, list[tuple[int, int, str]]] = {split: [] for split in ("train", *missing)}
        for place, (document, unit) in enumerate(units):
            block = place * n // len(units)
            parts[chosen.get(block, "train")].append((place, document, unit))
        return {**rows, **{split: list(_joined(part)) for split, part in parts.items()}}

    def limited(self, rows: list[Row], limit: int | None, seed: int) -> list[Row]:
        """The first `limit` documents, or lines where there are few documents."""
        if limit is None or len(rows) >= BLOCKS:
            return rows[:limit]
        lines = [(place, i, line) for i, (text,) in enumerate(rows) for place, line in enumerate(_lines(text))]
        return list(_joined(lines[:limit]))

    def cleaned(self, rows: list[Row], split: str, notes: list[str]) -> list[Row]:
        """The documents that are not empty."""
        whole: list[Row] = [(text,) for (text,) in rows if text.strip()]
        if not whole:
            raise InputError(WHERE, [Fault(split, "every text is empty")])
        return whole

    def texts(self, rows: list[Row]) -> Iterator[str]:
        """Lines, because tokens never cross line ends."""
        return (line for (text,) in rows for line in _lines(text))

    def encode(self, rows: Rows, tokenizer: Tokenizer, labels: tuple[str, ...], context: int,
               notes: list[str]) -> Arrays:
        """One stream per split: documents with end tokens between, before and after them."""
        return {f"{split}.stream": _stream(rows[split], tokenizer) for split in SPLITS}

    def encode_brought(self, rows: Rows, brought: BroughtTokenizer, labels: tuple[str, ...], context: int,
                       notes: list[str]) -> Arrays:
        """The same with whole documents, because some published tokenizers put a token before every text."""
        end = brought.special("eos", "ends a text")

        def ended(text: str) -> list[int]:
            ids: list[int] = brought.tokenizer.encode(text).ids
            return ids if ids[-1:] == [end] else [*ids, end]

        return {f"{split}.stream": np.array([end, *(i for (text,) in rows[split] for i in ended(text))], dtype=np.int32)
                for split in SPLITS}

    def open(self, arrays: Arrays, context: int) -> Split:
        """The stream in windows."""
        return PackedSplit(arrays["stream"], context)

    @torch.no_grad()
    def evaluate(self, logits: Callable[[Batch], Tensor], prepared: Prepared, split: str, *, size: int,
                 limit: int | None, full: bool, watch: Watch = unwatched) -> dict[str, float]:
        """Loss in nats and perplexity, of tokens; not comparable between vocabularies."""
        total, n = 0.0, 0
        for batch in prepared.split(split).in_order(size, limit):
            total += (loss := summed_loss(logits(batch), batch.labels))
            watch(loss)
            n += batch.n_labels
        return {name: follows(total / n) for name, follows in self.from_loss.items()}

    def snippet(self, arch: Architecture) -> Iterator[str]:
        """Continues a text."""
        yield f'prompt = [{EOS}, *tokenizer.encode("The").ids]    # {EOS}: a new document begins'
        yield f"written = model.generate(torch.tensor([prompt]), {max(min(20, arch.context - 8), 1)}, stop={EOS})"
        yield "print(tokenizer.decode(written[0].tolist()))"


def _units(documents: list[str]) -> list[tuple[int, str]]:
    """(document, piece of it): whole documents, or lines or words where there are too few."""
    for cut in (_whole, _lines, _words):
        units = [(i, unit) for i, text in enumerate(documents) for unit in cut(text)]
        if len(units) >= BLOCKS:
            break
    return units


def _joined(part: list[tuple[int, int, str]]) -> Iterator[Row]:
    """Pieces that were neighbours in one document become one text again."""
    text, after = "", (-1, -1)
    for place, document, unit in part:
        if text and (place, document) != after:
            yield (text,)
            text = ""
        text += unit
        after = place + 1, document
    if text:
        yield (text,)


def _whole(text: str) -> list[str]:
    return [text]


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+", text)


def _stream(rows: list[Row], tokenizer: Tokenizer) -> NDArray[np.int32]:
    texts = [_lines(text) for (text,) in rows]
    encoded = encode(tokenizer, [line for lines in texts for line in lines])
    parts = [np.array([EOS], dtype=np.int32)]
    for lines in texts:
        parts.extend(np.array(next(encoded), dtype=np.int32) for _ in lines)
        parts.append(parts[0])
    return np.concatenate(parts)


TASK = LanguageModelling()
