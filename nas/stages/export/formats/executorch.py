"""An ExecuTorch program delegated to XNNPACK, for phones and small computers."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hardware_profiles.runtimes import xnnpack
from nas.stages.export.shipment import Inputs, Run, Shipment, blaming

HELP = "an ExecuTorch program for phones: one sequence of a fixed length"
DYNAMIC, INT8 = False, True
FILE = "model.pte"
missing = xnnpack.missing


def write(shipment: Shipment, folder: Path) -> dict[str, Any]:
    """One file for one sequence of a fixed length; returns the share of the work that is not delegated to XNNPACK."""
    options = {"precision": "int8" if shipment.int8 else "fp32"}
    with blaming(shipment, "ExecuTorch", _alone):
        return xnnpack.compile(shipment.module, shipment.example(1, shipment.length), str(folder / FILE), options)


def load(shipment: Shipment, folder: Path) -> Run:
    """Runs the program in ExecuTorch's runtime."""
    run = xnnpack.call(str(folder / FILE), {"threads": 1})

    def first(inputs: Inputs) -> Tensor:
        return torch.from_numpy(run([each.numpy() for each in inputs])[0])

    return first


def _alone(module: nn.Module, inputs: Sequence[Tensor]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        xnnpack.compile(module, inputs, f"{folder}/{FILE}", {"precision": "fp32"})
