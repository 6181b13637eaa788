"""Classification: one class for each text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nas.tasks.answering import Answer, TrainedModel
from nas.tasks.base import Prepared, Watch, unwatched
from nas.tasks.embedded import passages
from nas.tasks.files import Row
from nas.tasks.labelled_texts import LabelledTexts, logits_of
from nas.tasks.options import SPLITS, WHERE, Options
from nas.tasks.scoring import summed_loss
from nas.tasks.sources import Rows, take_off
from search_spaces.architecture import Architecture
from search_spaces.errors import Fault, InputError
from supernet.batch import Batch


class Classification(LabelledTexts):
    """Rows are a text and the name of its class."""

    name = "classification"
    help = "one class for each text"
    title, command = "Text classifier", "classify"
    metrics = {"loss": False, "accuracy": True, "macro_f1": True}

    def embedded(self, options: Options, seed: int) -> Rows:
        """Passages of Python's own help; the class is the module or chapter."""
        return take_off({"train": passages()}, seed, self.must_stay, part=0.15)

    def must_stay(self, rows: Sequence[Row]) -> Collection[int]:
        """The first row of each class, so that training sees every class."""
        first: dict[str, int] = {}
        for place, row in enumerate(rows):
            first.setdefault(row[1].strip(), place)
        return first.values()

    def labels(self, rows: Rows) -> tuple[str, ...]:
        """The classes of the training rows; numbers in their own order.

        Raises:
            InputError: there is only one, or another split has one that training does not have.
        """
        seen = {split: {row[1] for row in rows[split]} for split in SPLITS}
        if len(seen["train"]) < 2:
            message = f"the training rows have only the class {min(seen['train'])!r}; two or more are needed"
            raise InputError(WHERE, [Fault("label", message)])
        faults = [Fault("label", f"the class {label!r} is in {split} but not in train")
                  for split in ("valid", "test") for label in sorted(seen[split] - seen["train"])]
        if faults:
            raise InputError(WHERE, faults)
        return tuple(sorted(seen["train"], key=lambda label: (int(label) if label.isdecimal() else -1, label)))

    def targets(self, rows: Rows, split: str, labels: tuple[str, ...]) -> NDArray[Any]:
        """The numbers of the classes."""
        number = {label: i for i, label in enumerate(labels)}
        return np.array([number[row[1]] for row in rows[split]], dtype=np.int32)

    @torch.no_grad()
    def evaluate(self, logits: Callable[[Batch], Tensor], prepared: Prepared, split: str, *, size: int,
                 limit: int | None, full: bool, watch: Watch = unwatched) -> dict[str, float]:
        """Loss in nats; accuracy and macro-averaged F1 as fractions."""
        n_classes = len(prepared.labels)
        total, counts = 0.0, torch.zeros(n_classes, n_classes, dtype=torch.int64)
        for batch in prepared.split(split).in_order(size, limit):
            outputs = logits(batch)
            total += (loss := summed_loss(outputs, batch.labels))
            watch(loss)
            pairs = batch.labels.cpu() * n_classes + outputs.argmax(dim=-1).cpu()
            counts += torch.bincount(pairs, minlength=n_classes**2).reshape(n_classes, n_classes)
        n, right = int(counts.sum()), counts.diagonal()
        return {"loss": total / n, "accuracy": int(right.sum()) / n, "macro_f1": _macro_f1(counts)}

    def snippet(self, arch: Architecture) -> Iterator[str]:
        """Names the class of a text."""
        yield from self.reading("a text")
        yield "found = model(torch.tensor([ids])).detach().softmax(dim=-1)[0]"
        yield 'labels = json.load(open("metrics.json"))["labels"]'
        yield "print(labels[found.argmax()], float(found.max()))"

    @torch.no_grad()
    def answer(self, trained: TrainedModel, text: str, ids: list[int]) -> Labelled:
        """The most probable class. Raises InputError if the names of the classes are not those of the model."""
        labels, known = trained.labels, trained.model.arch.n_classes
        if len(labels) != known:
            raise InputError(trained.where, f"metrics.json lists {len(labels)} classes, the model has {known}; "
                                            "extract it again")
        probabilities = logits_of(trained, text, ids).softmax(dim=-1)
        best = int(probabilities.argmax())
        return Labelled(text, labels[best], float(probabilities[best]))


@dataclass(frozen=True)
class Labelled(Answer):
    """The class of a text, and its probability."""

    label: str
    probability: float

    @property
    def line(self) -> str:
        """Class, probability and text."""
        return f"{self.label}\t{self.probability:.3f}\t{self.text}"


def _macro_f1(counts: Tensor) -> float:
    """The mean F1 of the classes that occur or were guessed; `counts[class, guess]`."""
    either = counts.sum(dim=0) + counts.sum(dim=1)
    there = either > 0
    return float((2 * counts.diagonal()[there].double() / either[there]).mean())


TASK = Classification()
