"""PyTorch on an NVIDIA GPU, timed by the GPU's own events."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

SUFFIX = ""
PRECISIONS = ("fp32", "bf16", "fp16")
OPTIONS = ("graphs",)
DRIVERS = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""Device files of GPU drivers that PyTorch can use: NVIDIA, Windows Subsystem for Linux, AMD."""
SETTLE_S = 0.5
"""Seconds of warm-up before the first measurement: clocks rise under load."""


def missing() -> str | None:
    """Why it is not available here; None if it is."""
    if any(map(os.path.exists, DRIVERS)):  # without a driver, the seconds that torch takes to import are saved
        import torch

        if torch.cuda.is_available():
            return None
    return "no CUDA device found; install a CUDA build of PyTorch on a machine with a CUDA device"


def versions() -> dict[str, str]:
    """Versions that its timings depend on."""
    import torch

    libraries = {"torch": torch.__version__, "cuda": str(torch.version.cuda)}
    if torch.cuda.is_available():
        libraries["gpu"] = torch.cuda.get_device_name()
    return libraries


def load(module: Any, inputs: Any, options: dict[str, Any]) -> Callable[[], float]:
    """A function that runs the module once and returns the seconds.

    With the option `graphs` its kernels are recorded once as a CUDA graph, as servers do; without it, Python launches
    each kernel, which dominates the latency of small models.
    """
    import torch

    module, inputs = _moved(module, inputs, str(options["precision"]))

    def forward() -> None:
        with torch.inference_mode():
            module(*inputs)

    launch = _captured(forward) if options.get("graphs") else forward
    start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]

    def run() -> float:
        start.record()
        launch()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    _settle(run)
    return run


def _moved(module: Any, inputs: Any, precision: str) -> tuple[Any, Any]:
    import torch

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    placed = tuple(tensor.to("cuda", dtype if tensor.is_floating_point() else tensor.dtype) for tensor in inputs)
    return module.to("cuda", dtype), placed


def _captured(forward: Callable[[], None]) -> Callable[[], None]:
    """The forward pass as one CUDA graph. Warm-up and capture need a side stream."""
    import torch

    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            forward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        forward()
    return graph.replay


def _settle(run: Callable[[], float]) -> None:
    end = time.perf_counter() + SETTLE_S
    while time.perf_counter() < end:
        run()


def peak_bytes(module: Any, inputs: Any, options: dict[str, Any]) -> int:
    """The most memory that tensors took on the GPU during one run, weights included."""
    import torch

    module, inputs = _moved(module, inputs, str(options["precision"]))
    torch.cuda.reset_peak_memory_stats()
    with torch.inference_mode():
        module(*inputs)
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated())
