"""PyTorch eager mode."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

SUFFIX = ""
PRECISIONS = ("fp32", "bf16")
OPTIONS: tuple[str, ...] = ()


def missing() -> str | None:
    """Why it is not available here; None if it is."""
    return None


def versions() -> dict[str, str]:
    """Versions that its timings depend on."""
    import torch

    return {"torch": torch.__version__}


def load(module: Any, inputs: Any, options: dict[str, Any]) -> Callable[[], float]:
    """A function that runs the module once and returns the seconds."""
    import torch

    torch.set_num_threads(int(options["threads"]))
    if options["precision"] == "bf16":
        module = module.to(torch.bfloat16)
        inputs = tuple(tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor for tensor in inputs)

    def run() -> float:
        with torch.inference_mode():
            start = time.perf_counter()
            module(*inputs)
            return time.perf_counter() - start

    return run
