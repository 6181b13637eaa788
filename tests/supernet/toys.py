"""Tiny spaces, data and trainers, for the tests of training."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch

from search_spaces import Architecture, SearchSpace
from search_spaces.files.loader import space_from_text
from supernet import Supernet, Transformer
from supernet.batch import IGNORE, Batch
from supernet.train.recipe import Recipe
from supernet.train.step import Trainer
from supernet.train.strategy import Fixed, make_strategy

LM = space_from_text("""
{schema_version: 1, name: toy, family: lm, vocab_size: 20, context: 8, width: [8, 12],
 embedding: {lookup: {rank: [4, full]}}, head: {tied: {}},
 decoder: {slots: 3, depth: {keep: first, layers: [1, 2, 3]}, sharing: [none, all], layers: {plain: {
   mixer: {conv: {kernel: [3, 5], glu: true}, attention: {n_heads: [1, 2], head_dim: 4}},
   ffn: {ffn: {inner: [1x, 2x]}}}}}}
""", "toy")
SEQ2SEQ = space_from_text("""
{schema_version: 1, name: toys2s, family: seq2seq, vocab_size: 20, context: 8, width: [8, 12],
 embedding: {lookup: {}}, head: {tied: {}},
 encoder: {slots: 3, depth: {keep: every_other, layers: [1, 2, 3]}, sharing: [none, all], layers: {plain: {
   mixer: {attention: {n_heads: 2}}, ffn: {ffn: {inner: 2x}}}}},
 decoder: {slots: 2, depth: {keep: first, layers: [1, 2]}, sharing: [none, attention], layers: {plain: {
   mixer: {attention: {n_heads: 2}}, cross: {cross_attention: {n_heads: 2}}, ffn: {ffn: {inner: 2x}}}}}}
""", "toys2s")


class Rows:
    """Sequences in which each token tells the next. Row `i` is the same however the rows are cut into batches.

    Args:
        ragged: rows lack some of their labels, each another number.
    """

    def __init__(self, vocab_size: int = 20, length: int = 8, ragged: bool = False) -> None:
        self.vocab_size, self.length, self.ragged = vocab_size, length, ragged

    def __len__(self) -> int:
        return 64

    def batch(self, index: int, size: int, seed: int) -> Batch:
        return self._rows(range(index * size, (index + 1) * size), seed)

    def in_order(self, size: int, limit: int | None = None) -> Iterator[Batch]:
        for first in range(0, limit or len(self), size):
            yield self._rows(range(first, first + size), -1)

    def _rows(self, rows: range, seed: int) -> Batch:
        ids = torch.tensor([self._row(row, seed) for row in rows])
        labels = ids[:, 1:].clone()
        if self.ragged:
            for place, row in enumerate(rows):
                labels[place, self.length - row % self.length:] = IGNORE
        return Batch(tokens=ids[:, :-1], labels=labels)

    def _row(self, row: int, seed: int) -> list[int]:
        ids = [random.Random(f"{seed}/{row}").randrange(self.vocab_size)]
        while len(ids) <= self.length:
            ids.append((3 * ids[-1] + 1) % self.vocab_size)
        return ids


def recipe(**settings: Any) -> Recipe:
    """Few small steps without dropout, the learning rate at once at its height."""
    return Recipe(**{"steps": 6, "batch_size": 4, "strategy": "sandwich", "optimiser": "adamw", "dropout": 0.0,
                     "warmup": 0, "lr": 1e-2, "device": "cpu", **settings})


def supernet_trainer(space: SearchSpace = LM, data: Any = None, dtype: torch.dtype = torch.float32,
                     **settings: Any) -> Trainer:
    made = recipe(**settings)
    net = Supernet(space, seed=made.seed, dropout=made.dropout).to(dtype)
    strategy = make_strategy(made.strategy, space, made.seed, made.n_random, made.steps)
    return Trainer(net, strategy, made, data or Rows())


def plain_trainer(arch: Architecture | None = None, data: Any = None, dtype: torch.dtype = torch.float32,
                  **settings: Any) -> Trainer:
    made, arch = recipe(**settings), arch or LM.largest()
    model = Transformer(arch, dropout=made.dropout, seed=made.seed).to(dtype)
    return Trainer(model, Fixed(arch), made, data or Rows())


def snapshot(trainer: Trainer) -> dict[str, torch.Tensor]:
    """A copy of everything a checkpoint holds."""
    return {name: tensor.detach().clone() for name, tensor in trainer.tensors().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    """Whether two snapshots are equal bit by bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
