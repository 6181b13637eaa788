"""Losses: against labels, and against the soft targets of a teacher.

Logits of two classes or more are compared by cross-entropy. A model with one output predicts a number: its labels are
real numbers, and the loss is the squared error.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from search_spaces.errors import InputError
from supernet.batch import IGNORE

ROWS = 128
"""Rows of logits per log-sum-exp call: torch copies its input."""


def labelled(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(n, classes) logits and (n,) labels of the positions that count, in float32 at least."""
    flat, wanted = logits.flatten(0, -2), labels.flatten()
    if labels.is_floating_point():
        return precise(flat), precise(wanted)
    counts = wanted != IGNORE
    if not bool(counts.all()):
        flat, wanted = flat[counts], wanted[counts]
    return precise(flat), wanted


def label_loss(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """The summed cross-entropy of (n, classes) logits in nats; the squared error of (n, 1) numbers.

    Raises:
        InputError: numbers are to be smoothed.
    """
    if predicts_number(logits):
        if smoothing:
            raise InputError("label_smoothing", f"{smoothing:g} is not allowed where a model predicts a number; "
                                                "allowed: 0")
        return squared_error(logits, labels[:, None])
    loss: Tensor = _LabelCrossEntropy.apply(logits, labels, smoothing)  # type: ignore[no-untyped-call]
    return loss


def soft_targets(teacher: Tensor, labels: Tensor, trust: float, smoothing: float = 0.0) -> Tensor:
    """Targets of students: the teacher's distribution mixed with the (smoothed) labels.

    Mixing targets is the same as mixing losses, and costs every student one loss instead of two. (Of squared errors, up
    to a constant.)

    Args:
        teacher: (n, classes) logits that are not needed afterwards: their memory is reused.
        trust: the teacher's share, from 0 to 1.
    """
    logits = teacher.detach()
    if predicts_number(logits):
        return logits if trust == 1 else logits.mul(trust).add_(labels[:, None], alpha=1 - trust)
    targets = logits.sub_(_normaliser(logits)).exp_()
    if trust < 1:
        rest = 1 - trust
        targets.mul_(trust).add_(rest * smoothing / targets.shape[-1])
        share = torch.full_like(labels, 1, dtype=targets.dtype).mul_(rest * (1 - smoothing))
        targets.scatter_add_(1, labels[:, None], share[:, None])
    return targets


def soft_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The summed cross-entropy of (n, classes) logits against distributions, which get no gradient.

    The backward pass reuses the memory of the logits: they are invalid after it. For (n, 1) numbers, the squared error.
    """
    if predicts_number(logits):
        return squared_error(logits, targets)
    loss: Tensor = _SoftCrossEntropy.apply(logits, targets)  # type: ignore[no-untyped-call]
    return loss


def teacher_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """T^2 times the summed divergence KL(teacher || student) of (n, classes) logits, both divided by T.

    The factor keeps its gradient comparable to that of the labels at any temperature. Numbers have none: for
    (n, 1), the squared difference.
    """
    if predicts_number(student):
        return squared_error(student, teacher)
    mine, theirs = ((logits / temperature).log_softmax(-1) for logits in (student, teacher))
    return temperature**2 * F.kl_div(mine, theirs, reduction="sum", log_target=True)


def predicts_number(logits: Tensor) -> bool:
    """Whether a model has one output, which is a number, not a class."""
    return logits.shape[-1] == 1


def squared_error(predicted: Tensor, wanted: Tensor) -> Tensor:
    """The summed squared error; the target gets no gradient."""
    return F.mse_loss(predicted, wanted.detach().to(predicted.dtype), reduction="sum")


def relative_feature_error(student: Tensor, teacher: Tensor, mask: Tensor | None) -> Tensor:
    """The mean squared difference of (batch, n, width) features of the real tokens, over the teacher's mean square.

    So it is a relative error, comparable between models and layers with features of different scale.

    Args:
        mask: (batch, n), true for real tokens; None if all are real.
    """
    mine, theirs = (precise(features if mask is None else features[mask]) for features in (student, teacher))
    return (mine - theirs).square().mean() / theirs.square().mean()


def attention_loss(student: Tensor, teacher: Tensor, mask: Tensor | None) -> Tensor:
    """The divergence KL(teacher || student) of the rows of attention maps, its mean over heads and rows.

    Args:
        student: (batch, heads, n, m). Where the teacher has another number of heads, the means over the heads are
            compared.
        mask: (batch, n), true for real query tokens; None if all are real.
    """
    mine, theirs = precise(student), precise(teacher)
    if mine.shape[1] != theirs.shape[1]:
        mine, theirs = mine.mean(1, keepdim=True), theirs.mean(1, keepdim=True)
    least = torch.finfo(mine.dtype).tiny  # masked positions have weight 0 in both
    rows = (torch.xlogy(theirs, theirs) - theirs * mine.clamp_min(least).log()).sum(-1).mean(1)
    return (rows if mask is None else rows[mask]).mean()


class _LabelCrossEntropy(torch.autograd.Function):
    """Keeps only the logits, which the teacher of a sandwich needs anyway; torch's version also keeps their
    log-softmax."""

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
        gradient = (logits - normaliser).exp_()
        if ctx.smoothing:
            gradient -= ctx.smoothing / logits.shape[-1]
        right = torch.full_like(normaliser, ctx.smoothing - 1)
        return gradient.scatter_add_(1, labels[:, None], right).mul_(gradients[0]), None, None


class _SoftCrossEntropy(torch.autograd.Function):
    """log-sum-exp minus the expected logit; its gradient is softmax minus target, written over the logits."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        normaliser = _normaliser(logits)
        ctx.save_for_backward(logits, targets, normaliser)
        return (normaliser.squeeze(-1) - torch.einsum("nc,nc->n", logits, targets)).sum()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        logits, targets, normaliser = ctx.saved_tensors
        return logits.sub_(normaliser).exp_().sub_(targets).mul_(gradients[0]), None


def precise(values: Tensor) -> Tensor:
    """Cast to at least float32."""
    return values if values.dtype == torch.float64 else values.float()


def _normaliser(logits: Tensor) -> Tensor:
    """(n, 1) log-sum-exp of (n, classes) logits."""
    parts = logits.split(ROWS)  # type: ignore[no-untyped-call]
    return torch.cat([rows.logsumexp(-1, keepdim=True) for rows in parts])
