"""Losses: against labels, and against the soft targets of a teacher."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from supernet.batch import IGNORE

ROWS = 128
"""Rows of logits whose log-sum-exp is taken at a time: torch copies what it is given."""


def labelled(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(n, classes) logits and (n,) labels of the positions that count, in float32 at least."""
    flat, wanted = logits.flatten(0, -2), labels.flatten()
    counts = wanted != IGNORE
    if not bool(counts.all()):
        flat, wanted = flat[counts], wanted[counts]
    return flat if flat.dtype == torch.float64 else flat.float(), wanted


def label_loss(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """The summed cross-entropy of (n, classes) logits in nats."""
    loss: Tensor = _LabelCrossEntropy.apply(logits, labels, smoothing)  # type: ignore[no-untyped-call]
    return loss


def soft_targets(teacher: Tensor, labels: Tensor, trust: float, smoothing: float = 0.0) -> Tensor:
    """What students should predict: the teacher's distribution mixed with the (smoothed) labels.

    Mixing targets is the same as mixing losses, and costs every student one loss instead of two.

    Args:
        teacher: (n, classes) logits that nobody needs any more: their memory is used.
        trust: the teacher's share, from 0 to 1.
    """
    logits = teacher.detach()
    targets = logits.sub_(_normaliser(logits)).exp_()
    if trust < 1:
        rest = 1 - trust
        targets.mul_(trust).add_(rest * smoothing / targets.shape[-1])
        share = torch.full_like(labels, 1, dtype=targets.dtype).mul_(rest * (1 - smoothing))
        targets.scatter_add_(1, labels[:, None], share[:, None])
    return targets


def soft_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The summed cross-entropy of (n, classes) logits against distributions, which get no gradient.

    The backward pass uses the memory of the logits: nobody may need them after it.
    """
    loss: Tensor = _SoftCrossEntropy.apply(logits, targets)  # type: ignore[no-untyped-call]
    return loss


class _LabelCrossEntropy(torch.autograd.Function):
    """Keeps the logits alone, which the teacher of a sandwich needs anyway; torch's own keeps their log-softmax too."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        normaliser = _normaliser(logits)
        ctx.save_for_backward(logits, labels, normaliser)
        ctx.smoothing = smoothing
        expected = (1 - smoothing) * logits.gather(1, labels[:, None]).sum()
        if smoothing:
            expected = expected + smoothing * logits.mean(-1).sum()
        return normaliser.sum() - expected

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        logits, labels, normaliser = ctx.saved_tensors
        found = (logits - normaliser).exp_()
        if ctx.smoothing:
            found -= ctx.smoothing / logits.shape[-1]
        right = torch.full_like(normaliser, ctx.smoothing - 1)
        return found.scatter_add_(1, labels[:, None], right).mul_(gradients[0]), None, None


class _SoftCrossEntropy(torch.autograd.Function):
    """log-sum-exp minus the expected logit; its gradient is softmax minus target, made where the logits were."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        normaliser = _normaliser(logits)
        ctx.save_for_backward(logits, targets, normaliser)
        return (normaliser.squeeze(-1) - torch.einsum("nc,nc->n", logits, targets)).sum()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        logits, targets, normaliser = ctx.saved_tensors
        return logits.sub_(normaliser).exp_().sub_(targets).mul_(gradients[0]), None


def _normaliser(logits: Tensor) -> Tensor:
    """(n, 1) log-sum-exp of (n, classes) logits."""
    parts = logits.split(ROWS)  # type: ignore[no-untyped-call]
    return torch.cat([rows.logsumexp(-1, keepdim=True) for rows in parts])
