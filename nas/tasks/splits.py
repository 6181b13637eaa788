"""The splits that training and evaluation read: one packed stream, or rows padded in buckets of similar length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nas.tasks.tokenizer import PAD
from supernet.batch import IGNORE, Batch

Ints = NDArray[np.integer]
POOL = 64
"""Batches whose rows are sorted by length together."""


class PackedSplit:
    """One stream of tokens cut into windows; every label is the token that follows.

    Training reads the stream as a ring with new window offsets each epoch, so no window is padded or repeated.
    Evaluation reads it from start to end and predicts every token once.

    Args:
        stream: ids that begin and end with the token between documents, which makes the ring seamless.
        context: tokens in a window.
    """

    def __init__(self, stream: Ints, context: int) -> None:
        self.stream, self.context = stream, context
        self._order: tuple[tuple[int, int], Ints] | None = None

    def __len__(self) -> int:
        """How many windows cover the stream."""
        return -(-(len(self.stream) - 1) // self.context)

    def batch(self, index: int, size: int, seed: int) -> Batch:
        """The `index`-th batch of the endless order; it may end one epoch and begin the next."""
        places = np.arange(index * size, (index + 1) * size)
        epochs, inside = places // len(self), places % len(self)
        starts = np.empty(size, np.int64)
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            starts[here] = self._starts(epoch, seed)[inside[here]]
        ids = self.stream[(starts[:, None] + np.arange(self.context + 1)) % (len(self.stream) - 1)]
        return Batch(tokens=_tensor(ids[:, :-1]), labels=_tensor(ids[:, 1:]))

    def _starts(self, epoch: int, seed: int) -> Ints:
        """Where the windows of an epoch start, in its order; the last one is cached."""
        kept = self._order  # read once: another thread may replace it
        if kept is None or kept[0] != (epoch, seed):
            rng = _rng(seed, epoch)
            offset = rng.integers(len(self.stream) - 1)
            kept = (epoch, seed), offset + rng.permutation(len(self)) * self.context
            self._order = kept
        return kept[1]

    def in_order(self, size: int, limit: int | None = None) -> Iterator[Batch]:
        """The windows from the start; the last one is padded."""
        for windows in in_batches(len(self), size, limit):
            starts = windows * self.context
            ends = np.minimum(starts + self.context, len(self.stream) - 1)
            tokens, mask = _padded(self.stream, starts, ends, PAD)
            labels, _ = _padded(self.stream, starts + 1, ends + 1, IGNORE)
            yield Batch(tokens=tokens, labels=labels, mask=mask)


class Ragged(NamedTuple):
    """Sequences of different lengths, one after the other; sequence i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: Ints
    offsets: Ints

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> Ragged:
        """The sequences as two arrays."""
        lengths = [len(sequence) for sequence in sequences]
        flat = np.fromiter((i for sequence in sequences for i in sequence), np.int32, sum(lengths))
        return cls(flat, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))

    @property
    def lengths(self) -> Ints:
        """Of each sequence."""
        return np.diff(self.offsets)

    def take(self, rows: Ints, fill: int = PAD, *, skip: int = 0, drop: int = 0) -> tuple[Tensor, Tensor | None]:
        """(ids padded on the right, mask or None if nothing is padded), without `skip` first and `drop` last."""
        return _padded(self.ids, self.offsets[rows] + skip, self.offsets[rows + 1] - drop, fill)


class BucketedSplit:
    """Examples of different lengths; training batches contain rows of similar length, so that little is padding.

    Args:
        tokens: what the model reads, of each example.
        labels: the class of each example, or its number; None for seq2seq.
        targets: for seq2seq, the target with the token before it and the one after it.
        types: the types of the tokens, where a model reads pairs of texts.
    """

    def __init__(self, tokens: Ragged, labels: NDArray[Any] | None = None, targets: Ragged | None = None,
                 types: Ragged | None = None) -> None:
        self.tokens, self.labels, self.targets, self.types = tokens, labels, targets, types
        self._lengths = tokens.lengths if targets is None else np.maximum(tokens.lengths, targets.lengths - 1)
        self._order: tuple[tuple[int, int, int], Ints] | None = None

    def __len__(self) -> int:
        """How many examples there are."""
        return len(self.tokens.offsets) - 1

    def batch(self, index: int, size: int, seed: int) -> Batch:
        """The `index`-th batch of the endless order. Where `size` does not divide the split, the last batch
        of an epoch is filled with some of its rows again."""
        epoch, place = divmod(index, -(-len(self) // size))
        return self._rows(self._batches(epoch, size, seed)[place])

    def _batches(self, epoch: int, size: int, seed: int) -> Ints:
        """(batch, size) rows of an epoch; the last one is cached."""
        kept = self._order  # read once: another thread may replace it
        if kept is None or kept[0] != (epoch, size, seed):
            kept = (epoch, size, seed), self._shuffled(_rng(seed, epoch), size)
            self._order = kept
        return kept[1]

    def _shuffled(self, rng: np.random.Generator, size: int) -> Ints:
        n = -(-len(self) // size)
        rows = np.resize(rng.permutation(len(self)), n * size)
        pool = size * min(POOL, -(-n // 4))  # keeps some randomness in batches of a small split
        order = np.lexsort((self._lengths[rows], np.arange(len(rows)) // pool))
        return rows[order].reshape(n, size)[rng.permutation(n)]

    def in_order(self, size: int, limit: int | None = None) -> Iterator[Batch]:
        """The examples as they came."""
        for rows in in_batches(len(self), size, limit):
            yield self._rows(rows)

    def _rows(self, rows: Ints) -> Batch:
        tokens, mask = self.tokens.take(rows)
        if self.targets is None:
            assert self.labels is not None
            types = None if self.types is None else self.types.take(rows, 0)[0]
            return Batch(tokens=tokens, labels=_tensor(self.labels[rows]), mask=mask, types=types)
        target, target_mask = self.targets.take(rows, drop=1)
        labels, _ = self.targets.take(rows, IGNORE, skip=1)
        return Batch(tokens=tokens, labels=labels, target=target, mask=mask, target_mask=target_mask)


def in_batches(n: int, size: int, limit: int | None) -> Iterator[Ints]:
    """n indices, or a random sample of `limit`, always the same one and part of every larger one; ascending."""
    places = np.arange(n) if limit is None or limit >= n else np.sort(_rng(0, 0).permutation(n)[:limit])
    for first in range(0, len(places), size):
        yield places[first : first + size]


def _padded(ids: Ints, starts: Ints, ends: Ints, fill: int) -> tuple[Tensor, Tensor | None]:
    """(rows of ids[start:end] padded on the right, the mask of real tokens, or None if all are real)."""
    places = starts[:, None] + np.arange((ends - starts).max())
    real = places < ends[:, None]
    if real.all():
        return _tensor(ids[places]), None
    return _tensor(np.where(real, ids[np.minimum(places, len(ids) - 1)], fill)), torch.from_numpy(real)


def _rng(seed: int, epoch: int) -> np.random.Generator:
    """A generator determined by the seed, of any sign, and the epoch."""
    return np.random.default_rng([seed % 2**64, epoch])


def _tensor(ids: NDArray[Any]) -> Tensor:
    """Numbers stay float32; ids are what torch looks up."""
    kept = np.float32 if ids.dtype.kind == "f" else np.int64
    return torch.from_numpy(np.ascontiguousarray(ids, dtype=kept))
