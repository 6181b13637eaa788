"""Data-parallel training: one reduction of the summed gradients per optimiser step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class Workers:
    """Which of how many processes this is. One alone needs no process group."""

    rank: int = 0
    world: int = 1

    def reduce(self, parameters: Iterable[nn.Parameter], losses: Tensor) -> Tensor:
        """Sum gradients in place, and losses, over all workers; each worker has already normalised by the whole
        batch."""
        if self.world == 1:
            return losses
        reduce_gradients(parameters)
        losses = losses.to(_device())
        dist.all_reduce(losses)
        return losses.cpu()

    def agree(self, flag: bool) -> bool:
        """Whether the flag is true on any worker."""
        if self.world == 1:
            return flag
        flags = torch.tensor([float(flag)], device=_device())
        dist.all_reduce(flags)
        return bool(flags.item())

    def broadcast(self, value: float) -> float:
        """The first worker's value."""
        if self.world == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64, device=_device())
        dist.broadcast(shared, 0)
        return float(shared.item())


def reduce_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Sum the gradients over all processes of the default group.

    Every process has to have run the same architectures, so that the same tensors have gradients;
    then any number of backward passes costs one reduction, and unused tensors cost nothing.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    start = 0
    for gradient in gradients:
        gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
        start += gradient.numel()


def _device() -> torch.device:
    """The device that the default group's backend needs."""
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
