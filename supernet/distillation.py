"""Losses: against labels, and against the soft targets of a teacher."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from supernet.batch import IGNORE


def labelled(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(n, classes) logits and (n,) labels of the positions that count, in float32 at least."""
    flat, wanted = logits.flatten(0, -2), labels.flatten()
    counts = wanted != IGNORE
    if not bool(counts.all()):
        flat, wanted = flat[counts], wanted[counts]
    return flat if flat.dtype == torch.float64 else flat.float(), wanted


def label_loss(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """The summed cross-entropy of (n, classes) logits in nats."""
    return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)


def soft_targets(teacher: Tensor, labels: Tensor, trust: float, smoothing: float = 0.0) -> Tensor:
    """What students should predict: the teacher's distribution mixed with the (smoothed) labels.

    Mixing targets is the same as mixing losses, and costs every student one loss instead of two.

    Args:
        teacher: (n, classes) logits.
        trust: the teacher's share, from 0 to 1.
    """
    targets = teacher.detach().softmax(-1)
    if trust < 1:
        rest = 1 - trust
        targets.mul_(trust).add_(rest * smoothing / targets.shape[-1])
        share = torch.full_like(labels, 1, dtype=targets.dtype).mul_(rest * (1 - smoothing))
        targets.scatter_add_(1, labels[:, None], share[:, None])
    return targets


def soft_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The summed cross-entropy of (n, classes) logits against distributions, whose gradient stops at the logits."""
    loss: Tensor = _SoftCrossEntropy.apply(logits, targets)  # type: ignore[no-untyped-call]
    return loss


class _SoftCrossEntropy(torch.autograd.Function):
    """log-sum-exp minus the expected logit; its gradient is softmax minus target, made in one buffer."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        normaliser = logits.logsumexp(-1, keepdim=True)
        ctx.save_for_backward(logits, targets, normaliser)
        return normaliser.sum() - torch.dot(logits.flatten(), targets.flatten())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        logits, targets, normaliser = ctx.saved_tensors
        return (logits - normaliser).exp_().sub_(targets).mul_(gradients[0]), None
