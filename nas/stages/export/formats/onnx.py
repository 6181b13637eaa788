"""ONNX with dynamic batch and length, for ONNX Runtime and other engines."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hardware_profiles.runtimes import onnx_runtime
from nas.stages.export.shipment import Inputs, Run, Shipment, blaming

HELP = "ONNX, for ONNX Runtime and other engines"
DYNAMIC, INT8 = True, True
FILE = "model.onnx"
NEWEST, MASKED = 25, 22
"""The newest opset that PyTorch's exporter writes, and the last one before attention became an operator: ONNX Runtime
runs that one without a mask of padding only."""
missing = onnx_runtime.missing


def write(shipment: Shipment, folder: Path) -> dict[str, Any]:
    """One file with weights; for int8 in the opset that int8 devices are profiled with."""
    with blaming(shipment, "ONNX", _alone):
        if shipment.int8:
            return _write(shipment, folder, None)
        try:
            facts = _write(shipment, folder, MASKED if "attention_mask" in shipment.names else NEWEST)
            load(shipment, folder)
        except Exception:  # an older ONNX Runtime does not know the newest operators
            facts = _write(shipment, folder, None)
        return facts


def load(shipment: Shipment, folder: Path) -> Run:
    """Runs the file in ONNX Runtime."""
    run = onnx_runtime.call(str(folder / FILE), {"threads": torch.get_num_threads()})

    def first(inputs: Inputs) -> Tensor:
        return torch.from_numpy(run([each.numpy() for each in inputs])[0])

    return first


def _write(shipment: Shipment, folder: Path, opset: int | None) -> dict[str, Any]:
    length = shipment.arch.context
    share = onnx_runtime.write(
        shipment.module, shipment.example(2), str(folder / FILE), "int8" if shipment.int8 else "fp32",
        sizes={"batch": 1, "length": length, "target_length": length}, input_names=list(shipment.names),
        output_names=["logits"], dynamic_shapes=shipment.open_axes(), opset_version=opset)
    return {**share, "opset": _opset(folder / FILE)}


def _opset(path: Path) -> int:
    import onnx

    domains = onnx.load(path, load_external_data=False).opset_import
    return next(int(each.version) for each in domains if each.domain in ("", "ai.onnx"))


def _alone(module: nn.Module, inputs: Sequence[Tensor]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        onnx_runtime.compile(module, inputs, f"{folder}/{FILE}", {"precision": "fp32"})
