"""PyTorch's exported program with dynamic batch and length, for `torch.export.load`."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hardware_profiles.runtimes.onnx_runtime import quiet
from nas.stages.export.shipment import Inputs, Run, Shipment, blaming

HELP = "PyTorch's exported program"
DYNAMIC, INT8 = True, False
FILE = "model.pt2"


def missing() -> str | None:
    """It comes with PyTorch."""
    return None


def write(shipment: Shipment, folder: Path) -> dict[str, Any]:
    """One file with weights."""
    with blaming(shipment, "torch.export", _alone), quiet():
        # Lengths after pooling are beyond what the exporter can prove: the program checks them when it runs.
        checks: Any = {"prefer_deferred_runtime_asserts_over_guards": True} if shipment.least_length > 1 else {}
        program = torch.export.export(shipment.module, shipment.example(2), dynamic_shapes=shipment.open_axes(),
                                      **checks)
    made = io.BytesIO()
    torch.export.save(program, made)
    (folder / FILE).write_bytes(made.getbuffer())  # written by Python for better disk errors
    return {"torch": torch.__version__}


def load(shipment: Shipment, folder: Path) -> Run:
    """Runs the program in PyTorch. The file is ours; loading an untrusted one may run code."""
    module = torch.export.load(folder / FILE).module()

    def first(inputs: Inputs) -> Tensor:
        with torch.no_grad():
            return torch.as_tensor(module(*inputs))

    return first


def _alone(module: nn.Module, inputs: Sequence[Tensor]) -> None:
    torch.export.export(module, tuple(inputs))
