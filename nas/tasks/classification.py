"""Classification: one class for each text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from nas.tasks.answering import Answer, TrainedModel
from nas.tasks.base import Prepared, Task, Watch, unwatched
from nas.tasks.cache import Arrays
from nas.tasks.embedded import passages
from nas.tasks.files import Row, format_of, read_rows
from nas.tasks.options import SPLITS, WHERE, Options
from nas.tasks.scoring import cut_note, summed_loss
from nas.tasks.sources import Rows, take_off
from nas.tasks.splits import BucketedSplit, Ragged
from nas.tasks.tokenizer import BOS, encode
from search_spaces.architecture import Architecture
from search_spaces.errors import Fault, InputError, Setting
from search_spaces.space.search_space import SearchSpace
from supernet.batch import Batch, Split


class Classification(Task):
    """Rows are a text and the name of its class."""

    name = "classification"
    help = "one class for each text"
    family = "encoder"
    title, first_space, command = "Text classifier", "encoder-small", "classify"
    roles = ("text", "label")
    embedded_vocab = 4096
    metrics = {"loss": False, "accuracy": True, "macro_f1": True}

    def read(self, path: str, options: Options) -> list[Row]:
        """The rows of a table or of lines that match a pattern."""
        if format_of(path, options) == "text":
            table = Setting("data", "format", "tsv")
            says = f"cannot tell the columns of {path}; give {table}, csv or jsonl, or a pattern"
            raise InputError(WHERE, [Fault("format", says)])
        return read_rows(path, options, self.roles)

    def embedded(self, options: Options, seed: int) -> Rows:
        """Passages of Python's own help; the class is the module or chapter."""
        return take_off({"train": passages()}, seed, self.must_stay, part=0.15)

    def check(self, space: SearchSpace) -> None:
        """Only a head that gives classes will do."""
        super().check(space)
        if not space.n_classes:
            says = f"needs a space with the head classifier; {space.name} has no classes"
            raise InputError("", f"task {self.name} {says}")

    def must_stay(self, rows: Sequence[Row]) -> Collection[int]:
        """The first row of each class, so that training sees every class."""
        first: dict[str, int] = {}
        for place, (_, label) in enumerate(rows):
            first.setdefault(label.strip(), place)
        return first.values()

    def cleaned(self, rows: list[Row], split: str, notes: list[str]) -> list[Row]:
        """The rows without spaces around them. Raises InputError where a row names no class."""
        n = sum(not label.strip() for _, label in rows)
        if n:
            raise InputError(WHERE, [Fault("label", f"{n:,} of {len(rows):,} rows of {split} have no label")])
        return [(text.strip(), label.strip()) for text, label in rows]

    def labels(self, rows: Rows) -> tuple[str, ...]:
        """The classes of the training rows; numbers in their own order.

        Raises:
            InputError: there is but one, or another split has one that training never sees.
        """
        seen = {split: {label for _, label in rows[split]} for split in SPLITS}
        if len(seen["train"]) < 2:
            says = f"the training rows have only the class {min(seen['train'])!r}; two or more are needed"
            raise InputError(WHERE, [Fault("label", says)])
        faults = [Fault("label", f"the class {label!r} is in {split} but not in train")
                  for split in ("valid", "test") for label in sorted(seen[split] - seen["train"])]
        if faults:
            raise InputError(WHERE, faults)
        return tuple(sorted(seen["train"], key=lambda label: (int(label) if label.isdecimal() else -1, label)))

    def encode(self, rows: Rows, tokenizer: Tokenizer, labels: tuple[str, ...], context: int,
               notes: list[str]) -> Arrays:
        """`<bos>` and the text: heads that read the first token find a token of their own there."""
        number = {label: i for i, label in enumerate(labels)}
        arrays: Arrays = {}
        n_cut = 0
        for split in SPLITS:
            texts = list(encode(tokenizer, [text for text, _ in rows[split]]))
            n_cut += sum(len(text) >= context for text in texts)
            tokens = Ragged.of([as_read(text, context) for text in texts])
            arrays[f"{split}.tokens"], arrays[f"{split}.offsets"] = tokens
            arrays[f"{split}.labels"] = np.array([number[label] for _, label in rows[split]], dtype=np.int32)
        notes += cut_note(n_cut, sum(map(len, rows.values())), context)
        return arrays

    def open(self, arrays: Arrays, context: int) -> Split:
        """The texts in buckets."""
        return BucketedSplit(Ragged(arrays["tokens"], arrays["offsets"]), arrays["labels"])

    @torch.no_grad()
    def evaluate(self, logits: Callable[[Batch], Tensor], prepared: Prepared, split: str, *, size: int,
                 limit: int | None, full: bool, watch: Watch = unwatched) -> dict[str, float]:
        """Loss in nats; accuracy and macro-averaged F1 as fractions."""
        n_classes = len(prepared.labels)
        total, counts = 0.0, torch.zeros(n_classes, n_classes, dtype=torch.int64)
        for batch in prepared.split(split).in_order(size, limit):
            found = logits(batch)
            total += (loss := summed_loss(found, batch.labels))
            watch(loss)
            pairs = batch.labels.cpu() * n_classes + found.argmax(dim=-1).cpu()
            counts += torch.bincount(pairs, minlength=n_classes**2).reshape(n_classes, n_classes)
        n, right = int(counts.sum()), counts.diagonal()
        return {"loss": total / n, "accuracy": int(right.sum()) / n, "macro_f1": _macro_f1(counts)}

    def snippet(self, arch: Architecture) -> Iterator[str]:
        """Names the class of a text."""
        yield f'ids = [{BOS}, *tokenizer.encode("a text").ids]    # {BOS}: where a text begins'
        yield "found = model(torch.tensor([ids])).detach().softmax(dim=-1)[0]"
        yield 'labels = json.load(open("metrics.json"))["labels"]'
        yield "print(labels[found.argmax()], float(found.max()))"

    @torch.no_grad()
    def answer(self, trained: TrainedModel, text: str, ids: list[int]) -> Labelled:
        """The most probable class. Raises InputError where the names of the classes are not those of the model."""
        labels, known = trained.labels, trained.model.arch.n_classes
        if len(labels) != known:
            raise InputError(trained.where, f"metrics.json names {len(labels)} classes, the model knows {known}; "
                                            "extract it again")
        read = as_read(ids, trained.context) if trained.specials is None else ids[:trained.context]
        found = trained.model(torch.tensor([read]))[0].softmax(dim=-1)
        best = int(found.argmax())
        return Labelled(text, labels[best], float(found[best]))


@dataclass(frozen=True)
class Labelled(Answer):
    """The class of a text, and how probable the model finds it."""

    label: str
    probability: float

    @property
    def line(self) -> str:
        """Class, probability and text."""
        return f"{self.label}\t{self.probability:.3f}\t{self.text}"


def as_read(text: list[int], context: int) -> list[int]:
    """What a model reads of a text's tokens: `<bos>` and as many as the context holds."""
    return [BOS, *text[:context - 1]]


def _macro_f1(counts: Tensor) -> float:
    """The mean F1 of the classes that occur or were guessed; `counts[class, guess]`."""
    either = counts.sum(dim=0) + counts.sum(dim=1)
    there = either > 0
    return float((2 * counts.diagonal()[there].double() / either[there]).mean())


TASK = Classification()
