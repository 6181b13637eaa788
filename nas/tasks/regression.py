"""Text regression: one number for each text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr
from torch import Tensor

from nas.tasks.answering import Answer, TrainedModel
from nas.tasks.base import Prepared, Watch, unwatched
from nas.tasks.embedded import passages
from nas.tasks.files import Row
from nas.tasks.labelled_texts import LabelledTexts, logits_of
from nas.tasks.options import WHERE, Options
from nas.tasks.sources import Rows, take_off
from search_spaces.architecture import Architecture
from search_spaces.errors import Fault, InputError
from supernet.batch import Batch
from supernet.train.losses import label_loss, labelled


class Regression(LabelledTexts):
    """Rows are a text and a number. A model predicts by how many standard deviations the number is above the mean."""

    name = "regression"
    help = "one number for each text"
    title = "Text regression model"
    metrics = {"loss": False, "spearman": True, "pearson": True}

    def embedded(self, options: Options, seed: int) -> Rows:
        """Passages of Python's own help; the number is the mean length of their words."""
        rows: list[Row] = [(text, f"{np.mean([len(word) for word in text.split()]):.4f}") for text, _ in passages()]
        return take_off({"train": rows}, seed, self.must_stay, part=0.15)

    def may_read(self, rows: Sequence[Row]) -> bool:
        """Labels have to be numbers."""
        return all(_number(row[1]) is not None for row in rows)

    def cleaned(self, rows: list[Row], split: str, notes: list[str]) -> list[Row]:
        """The rows without spaces around them. Raises InputError if a label is not a finite number."""
        kept = super().cleaned(rows, split, notes)
        wrong = [row[1] for row in kept if _number(row[1]) is None]
        if wrong:
            raise InputError(WHERE, [Fault("label", (
                f"{len(wrong):,} of {len(rows):,} rows of {split} have a label that is not a finite number, such as "
                f"{wrong[0][:40]!r}; the task {self.name} needs numbers"))])
        return kept

    def labels(self, rows: Rows) -> tuple[str, ...]:
        """One output. Raises InputError if all training rows have the same number."""
        if len({_number(row[1]) for row in rows["train"]}) < 2:
            message = f"the training rows have only the number {rows['train'][0][1]}; two or more are needed"
            raise InputError(WHERE, [Fault("label", message)])
        return ("label",)

    def scale(self, rows: Rows) -> tuple[float, float]:
        """Of the training labels."""
        numbers = _numbers(rows["train"])
        return float(numbers.mean()), float(numbers.std())

    def targets(self, rows: Rows, split: str, labels: tuple[str, ...]) -> NDArray[Any]:
        """Standard deviations above the mean."""
        mean, deviation = self.scale(rows)
        return ((_numbers(rows[split]) - mean) / deviation).astype(np.float32)

    @torch.no_grad()
    def evaluate(self, logits: Callable[[Batch], Tensor], prepared: Prepared, split: str, *, size: int,
                 limit: int | None, full: bool, watch: Watch = unwatched) -> dict[str, float]:
        """The mean squared error in units of the variance of the training labels, and the correlations."""
        total, predicted, wanted = 0.0, [], []
        for batch in prepared.split(split).in_order(size, limit):
            outputs, labels = labelled(logits(batch).cpu(), batch.labels.cpu())
            total += (loss := label_loss(outputs, labels).item())
            watch(loss)
            predicted.append(outputs[:, 0])
            wanted.append(labels)
        pair = torch.cat(predicted).numpy(), torch.cat(wanted).numpy()
        return {"loss": total / len(pair[0]), "spearman": _correlation(spearmanr, *pair),
                "pearson": _correlation(pearsonr, *pair)}

    def snippet(self, arch: Architecture) -> Iterator[str]:
        """Predicts the number of a text."""
        yield from self.reading(self.sample)
        yield 'mean, deviation = json.load(open("metrics.json"))["scale"]'
        yield "print(mean + deviation * model(torch.tensor([ids])).item())"

    @torch.no_grad()
    def answer(self, trained: TrainedModel, text: str, ids: list[int]) -> Predicted:
        """The number of a text, in the units of the data. Raises InputError if the scale of the labels is lost."""
        if trained.scale is None:
            raise InputError(trained.where, "metrics.json lacks the scale of the labels; extract it again")
        mean, deviation = trained.scale
        output = logits_of(trained, text, ids).item()
        return Predicted(text, mean + deviation * output)


@dataclass(frozen=True)
class Predicted(Answer):
    """The number that a model predicts for a text."""

    value: float

    @property
    def line(self) -> str:
        """Number and text."""
        return f"{self.value:.4g}\t{self.text}"


def _number(label: str) -> float | None:
    """A finite number as it is written; None if it is none."""
    try:
        value = float(label)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _numbers(rows: list[Row]) -> NDArray[np.float64]:
    return np.array([float(row[1]) for row in rows])


def _correlation(of: Callable[..., Any], predicted: NDArray[Any], wanted: NDArray[Any]) -> float:
    """0 where it is undefined: for a model that predicts the same number for every text."""
    if len(predicted) < 2 or np.ptp(predicted) == 0 or np.ptp(wanted) == 0 or not np.isfinite(predicted).all():
        return 0.0
    return float(of(predicted, wanted).statistic)


TASK = Regression()
