"""What one training or evaluation step reads: token ids, masks and the labels to predict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

IGNORE = -100
"""Label of padding positions, which are ignored by losses and metrics."""


@dataclass(frozen=True)
class Batch:
    """Sequences of one step; every tensor has the batch as its first axis.

    Args:
        tokens: (batch, n) ids; of the source for seq2seq.
        labels: what the logits should predict, `IGNORE` where nothing: (batch, n) next tokens for an lm,
            (batch,) classes for an encoder, (batch, m) next target tokens for seq2seq. Real numbers, of which all
            count, where a model predicts a number.
        target: (batch, m) ids the decoder reads, for seq2seq.
        mask: (batch, n), true for real tokens; None if all are real.
        target_mask: as `mask`, of the target.
        types: (batch, n) token types, which tell the two texts of a pair apart; a model without token types ignores
            them.
    """

    tokens: Tensor
    labels: Tensor
    target: Tensor | None = None
    mask: Tensor | None = None
    target_mask: Tensor | None = None
    types: Tensor | None = None

    @property
    def n_labels(self) -> int:
        """Number of labels that are not ignored."""
        return self.labels.numel() if self.labels.is_floating_point() else int((self.labels != IGNORE).sum())

    @property
    def n_tokens(self) -> int:
        """Number of real tokens that the model reads."""
        read = self.tokens.numel() if self.mask is None else int(self.mask.sum())
        if self.target is None:
            return read
        return read + (self.target.numel() if self.target_mask is None else int(self.target_mask.sum()))

    def part(self, rank: int, world: int) -> Batch:
        """The rows of worker `rank` of `world`."""
        return self.map(lambda tensor: tensor[rank::world]) if world > 1 else self

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device."""
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The same batch with a function applied to every tensor."""
        def changed(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else change(tensor)

        return Batch(change(self.tokens), change(self.labels), changed(self.target), changed(self.mask),
                     changed(self.target_mask), changed(self.types))


class Split(Protocol):
    """The examples of one split of a data set. Every method is a pure function of its arguments."""

    def __len__(self) -> int:
        """How many examples there are."""

    def batch(self, index: int, size: int, seed: int) -> Batch:
        """The `index`-th batch of an endless order: each epoch takes every example, reshuffled by the seed."""

    def in_order(self, size: int, limit: int | None = None) -> Iterator[Batch]:
        """Every example once, or a random sample of `limit`, for evaluation; the last batch may be smaller."""
