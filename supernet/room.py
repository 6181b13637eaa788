"""Checks free memory before tensors are allocated, because the allocator's error suggests no fix."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from search_spaces.errors import InputError

GIB = 2**30
_CGROUP = Path("/sys/fs/cgroup")


def check_room(where: str, needed: int, what: str, device: torch.device, remedy: str) -> None:
    """Raises InputError if a device has fewer free bytes; never if that is unknown.

    Args:
        what: subject of the message.
    """
    free = free_bytes(device)
    if free is not None and needed > free:
        raise InputError(where, f"{what} need {needed / GIB:,.1f} GiB; {free / GIB:,.1f} GiB are free on "
                                f"{'this machine' if device.type == 'cpu' else device}", remedy)


def tensor_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of tensors, each counted once."""
    return sum({id(tensor): tensor.numel() * tensor.element_size() for tensor in tensors}.values())


def free_bytes(device: torch.device) -> int | None:
    """Free bytes on a device; None if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0]) + _reserved(device)
    return _free_here() if device.type == "cpu" else None


def _reserved(device: torch.device) -> int:
    """Bytes that torch has reserved and can reuse."""
    return torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def _free_here() -> int | None:
    limits = [value for value in (_of_machine(), _of_group()) if value is not None]
    return min(limits, default=None)


def _of_machine() -> int | None:
    """Available memory and swap on Linux; elsewhere the total memory."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text("ascii").splitlines())
        return 1024 * sum(int(lines[name].split()[0]) for name in ("MemAvailable", "SwapFree"))
    except (OSError, ValueError, KeyError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _of_group() -> int | None:
    """Free memory of a container: its limit minus what is used and cannot be reclaimed."""
    try:
        limit, used = (int((_CGROUP / name).read_text("ascii")) for name in ("memory.max", "memory.current"))
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text("ascii").splitlines())
        return limit - used + int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0))
    except (OSError, ValueError):  # no limit, or another system
        return None
