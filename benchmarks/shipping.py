"""What int8 gains and costs against full precision: size on disk, latency on one thread, and loss.

    python benchmarks/shipping.py RUN|SUBNET... [--rounds 60] [--results benchmarks/results]

Exports what is not exported yet to onnx and executorch, both ways, and times the files in their runtimes on one
sequence of the whole context, in turns. Prints one JSON line: for each subnet and format the figures of both, and over
all subnets the median ratio of sizes and of latencies (int8 over fp32) and of what is added to the validation loss.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch
from _measuring import interleaved
from _results import add_option, append
from rich.console import Console

from hardware_profiles.runtimes import onnx_runtime, xnnpack
from nas.core.subnet import Subnet
from nas.stages.export.job import ExportJob
from nas.stages.export.request import ExportRequest
from nas.stages.export.run import run
from nas.stages.measure.run import open_subnets
from nas.terminal.progress import TerminalProgress

LABELS = {"onnx": "ONNX Runtime", "executorch": "ExecuTorch, XNNPACK"}
FIGURES = ("size_ratio", "latency_ratio", "loss_increase")
RUNTIMES = {"onnx": (onnx_runtime, "model.onnx"), "executorch": (xnnpack, "model.pte")}


def exported(subnet: Subnet, request: ExportRequest) -> tuple[Path, dict[str, Any]]:
    """An export's folder and record; it is made where it is not there."""
    folder, record = subnet.path / "exports" / request.name, subnet.facts.exports.get(request.name)
    if record is None or "folder" in record or not folder.is_dir():
        with TerminalProgress(Console(stderr=True)) as progress:
            record = run(request, progress).record
    return folder, record


def compared(subnet: Subnet, name: str, rounds: int) -> dict[str, Any]:
    """Both precisions of a format."""
    runtime, file = RUNTIMES[name]
    length = subnet.arch.context
    inputs = [tensor.numpy() for tensor in ExportJob(subnet, length, False).example(1, length)]
    exports = {precision: exported(subnet, ExportRequest(str(subnet.path), name, int8=precision == "int8"))
             for precision in ("fp32", "int8")}
    runs = {precision: runtime.load(str(folder / file), inputs, {"threads": 1, "precision": precision})
            for precision, (folder, _) in exports.items()}
    seconds = interleaved(runs, rounds)
    fp32, int8 = (record for _, record in exports.values())
    return {"bytes": [fp32["bytes"], int8["bytes"]], "size_ratio": round(int8["bytes"] / fp32["bytes"], 4),
            "ms": [round(1e3 * value, 3) for value in seconds.values()],
            "latency_ratio": round(seconds["int8"] / seconds["fp32"], 4),
            "loss": [round(int8["plain_loss"], 4), round(int8["loss"], 4)],
            "loss_increase": round(int8["loss"] - int8["plain_loss"], 4), "loss_on": int8["compared_on"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", metavar="RUN|SUBNET")
    parser.add_argument("--rounds", type=int, default=60)
    add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = {str(subnet.path): {name: compared(subnet, name, options.rounds) for name in RUNTIMES}
            for subnet in open_subnets(options.names)}
    medians = {name: {figure: statistics.median(row[name][figure] for row in rows.values())
                      for figure in FIGURES} for name in RUNTIMES}
    print(json.dumps({"benchmark": "shipping", "context": "one sequence of the whole context, 1 thread",
                      "subnets": rows, "median": medians}))
    values = {(name, figure): [row[name][figure] for row in rows.values()] for name in RUNTIMES for figure in FIGURES}
    append(options.results, "int8_exports",
           [{"run": " ".join(options.names), "runtime": LABELS[name], "figure": figure,
             "median": medians[name][figure], "minimum": min(of), "maximum": max(of)}
            for (name, figure), of in values.items()])


if __name__ == "__main__":
    main()
