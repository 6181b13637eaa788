"""Shared parts of the metrics of all tasks."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from supernet.batch import IGNORE


def summed_loss(logits: Tensor, labels: Tensor) -> float:
    """The cross-entropy of all labels that count, summed, in nats."""
    flat = logits.reshape(-1, logits.shape[-1]).float()
    return F.cross_entropy(flat, labels.reshape(-1).to(flat.device), ignore_index=IGNORE, reduction="sum").item()


def n_right(logits: Tensor, labels: Tensor) -> int:
    """How many labels that count are the most probable ones."""
    labels = labels.to(logits.device)
    return int(((logits.argmax(dim=-1) == labels) & (labels != IGNORE)).sum())


def cut_note(n_cut: int, n: int, context: int) -> list[str]:
    """The sentence about sequences that were too long, if any."""
    if not n_cut:
        return []
    return [f"{n_cut:,} of {n:,} sequences are longer than the context of {context} and were truncated"]
