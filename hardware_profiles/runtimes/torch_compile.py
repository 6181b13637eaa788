"""PyTorch with `torch.compile`: kernels generated for the module and its shapes."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

SUFFIX = ""
PRECISIONS = ("fp32", "bf16")
OPTIONS: tuple[str, ...] = ()


def missing() -> str | None:
    """Why it is not available here; None if it is."""
    if shutil.which(os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")) is None:
        return "torch.compile needs a C++ compiler; run `apt install g++`, or set CXX to one"
    return None


def versions() -> dict[str, str]:
    """Versions that its timings depend on."""
    import torch

    return {"torch": torch.__version__}


def load(module: Any, inputs: Any, options: dict[str, Any]) -> Callable[[], float]:
    """Compile the module; returns a function that runs it once and returns the seconds.

    Raises:
        InputError: the module cannot be compiled as a whole.
    """
    import torch

    from search_spaces.errors import InputError

    torch.set_num_threads(int(options["threads"]))
    if options["precision"] == "bf16":
        module = module.to(torch.bfloat16)
        inputs = tuple(tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor for tensor in inputs)
    try:
        with torch.inference_mode():
            # Modules of one class share their code, and after eight of them PyTorch would silently fall back to eager
            # a word: what is exported has code of its own.
            graph = torch.export.export(module, tuple(inputs)).module()
            compiled = torch.compile(graph.forward, fullgraph=True, dynamic=False)
            compiled(*inputs)
    except Exception as error:
        message = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InputError("torch-compile", f"the module cannot be compiled ({message[:200]})") from error

    def run() -> float:
        with torch.inference_mode():
            start = time.perf_counter()
            compiled(*inputs)
            return time.perf_counter() - start

    return run
