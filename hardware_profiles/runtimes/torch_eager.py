"""PyTorch as it is, operator by operator."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

SUFFIX = ""
PRECISIONS = ("fp32", "bf16")
OPTIONS: tuple[str, ...] = ()


def missing() -> str | None:
    """Why it cannot be used here; None if it can."""
    return None


def versions() -> dict[str, str]:
    """What its times depend on."""
    import torch

    return {"torch": torch.__version__}


def load(module: Any, inputs: Any, options: dict[str, Any]) -> Callable[[], float]:
    """A function that runs the module once and gives the seconds."""
    import torch

    torch.set_num_threads(int(options["threads"]))
    if options["precision"] == "bf16":
        module = module.to(torch.bfloat16)
        inputs = tuple(each.to(torch.bfloat16) if each.is_floating_point() else each for each in inputs)

    def run() -> float:
        with torch.inference_mode():
            start = time.perf_counter()
            module(*inputs)
            return time.perf_counter() - start

    return run
