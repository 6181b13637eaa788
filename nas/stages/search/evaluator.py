"""Evaluates architectures with the supernet's weights, on a fixed part of the validation data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from nas.stages.search.racing import Rival
from nas.tasks.base import Prepared, Task
from search_spaces import Architecture, InputError
from search_spaces.errors import Option
from supernet import Supernet
from supernet.batch import Batch
from supernet.inference import predict
from supernet.train.fit import enough_memory
from supernet.train.recipe import Recipe

BATCH_TOKENS = {"cpu": 1024}
"""Tokens in a batch on a type of device: the fastest of benchmarks/evaluation_batch.py."""
DEFAULT_BATCH_TOKENS = 16_384
"""On other types, such as GPUs: large enough to keep them busy; not tuned."""


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of one architecture.

    Args:
        metrics: by the names of the task; none where it failed.
        losses: of each batch, summed over its labels.
        interval: where the loss lies with 95 % confidence, if the evaluation was ended early; `metrics` is an estimate.
        reason: the error, if it failed.
    """

    metrics: dict[str, float]
    losses: tuple[float, ...] = ()
    interval: tuple[float, float] | None = None
    reason: str = ""


Evaluate = Callable[[Architecture, Rival | None], Evaluation]


class Evaluator:
    """Measures architectures, always on the same batches in the same order.

    Args:
        limit: number of examples, a random sample; None for all.
        size: examples in a batch; None for what is fast.
        full: also compute expensive metrics such as BLEU.
    """

    def __init__(self, net: Supernet, task: Task, prepared: Prepared, recipe: Recipe, *, split: str = "valid",
                 limit: int | None = None, size: int | None = None, full: bool = False) -> None:
        self.net, self.task, self.recipe, self.split, self.full = net.eval(), task, recipe, split, full
        self.device = next(net.parameters()).device
        self.size = size or fast_size(self.device, prepared.space.context)
        self.batches = [batch.to(self.device) for batch in batches_of(prepared, split, self.size, limit)]
        self.counts = [batch.n_labels for batch in self.batches]
        self.prepared = replace(prepared, **{split: FixedBatches(self.batches)})  # type: ignore[arg-type]

    def __call__(self, arch: Architecture, rival: Rival | None = None) -> Evaluation:
        """Measure one architecture. Errors of the architecture are recorded, not raised."""
        losses: list[float] = []

        def watch(loss: float) -> None:
            losses.append(loss)
            if not math.isfinite(loss):
                raise _EndedError(Evaluation({}, reason=f"the loss is {loss}"))
            estimate = rival.estimate_if_beaten(losses, self.counts) if rival else None
            if estimate:
                raise _EndedError(estimated(*estimate, tuple(losses), self.task.from_loss))

        try:
            return Evaluation(self._metrics(arch, watch), tuple(losses))
        except _EndedError as ended:
            return ended.evaluation
        except InputError as error:
            return Evaluation({}, reason=str(error).splitlines()[0])
        except Exception as error:
            return Evaluation({}, reason=failure(error))

    def _metrics(self, arch: Architecture, watch: Callable[[float], None]) -> dict[str, float]:
        with torch.no_grad(), enough_memory(f"evaluation of {arch.key[:12]}", f"use a smaller {Option('batch_size')}"):
            return self.task.evaluate(lambda batch: predict(self.net, arch, batch, self.recipe), self.prepared,
                                      self.split, size=self.size, limit=None, full=self.full, watch=watch)


def replayed(known: Evaluation, rival: Rival | None, counts: Sequence[int],
             from_loss: Mapping[str, Callable[[float], float]]) -> Evaluation | None:
    """The result of early stopping, computed from known batches; None if they are not sufficient."""
    for n in range(1, len(known.losses) + 1):
        estimate = rival.estimate_if_beaten(known.losses[:n], counts) if rival else None
        if estimate:
            return estimated(*estimate, known.losses[:n], from_loss)
    return known if known.interval is None else None


def estimated(loss: float, error: float, losses: tuple[float, ...],
              from_loss: Mapping[str, Callable[[float], float]]) -> Evaluation:
    """An evaluation that ended early.

    Args:
        from_loss: the metrics of the task that follow from the loss, and how.
    """
    return Evaluation({name: follows(loss) for name, follows in from_loss.items()}, losses,
                      (loss - 1.96 * error, loss + 1.96 * error))


def batches_of(prepared: Prepared, split: str, size: int, limit: int | None) -> list[Batch]:
    """The batches of an evaluation, in an order in which every prefix is a random sample."""
    batches = list(prepared.split(split).in_order(size, limit))
    return [batches[i] for i in np.random.default_rng(0).permutation(len(batches)).tolist()]


def fast_size(device: torch.device, context: int) -> int:
    """Batch size that is evaluated fast; equal for devices of the same type, so that results are equal, too."""
    return max(BATCH_TOKENS.get(device.type, DEFAULT_BATCH_TOKENS) // context, 1)


def failure(error: BaseException) -> str:
    """One line on what went wrong."""
    message = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


class _EndedError(Exception):
    """The evaluation is stopped early."""

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__()
        self.evaluation = evaluation


@dataclass(frozen=True)
class FixedBatches:
    """A split with precomputed batches."""

    batches: list[Batch]

    def __len__(self) -> int:
        return len(self.batches)

    def batch(self, index: int, size: int, seed: int) -> Batch:
        """A batch; after the last one, the first again."""
        return self.batches[index % len(self.batches)]

    def in_order(self, size: int, limit: int | None = None) -> Iterator[Batch]:
        """All batches."""
        return iter(self.batches)
