"""Data-parallel gradients of a supernet: one reduction of the summed gradients per optimiser step."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


def reduce_gradients(net: nn.Module) -> None:
    """Average the gradients over all processes of the default group.

    Every process has to have run the same architectures, so that the same tensors have gradients;
    then any number of backward passes costs one reduction, and unused tensors cost nothing.
    """
    gradients = [parameter.grad for parameter in net.parameters() if parameter.grad is not None]
    if not gradients:
        return
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    start = 0
    for gradient in gradients:
        gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
        start += gradient.numel()
