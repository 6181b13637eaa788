"""What a cache gains: the latency of one more token with the exported decoder, against reading the whole text again.

    python benchmarks/decoding.py SUBNET... [--past 16 32 64 128] [--rounds 60]

Exports what is not exported yet to onnx and executorch, in fp32 and int8, and times the files in their runtimes on one
thread, in turns. ExecuTorch programs have a fixed size: they are exported for each past. Prints one JSON line: for each
subnet, format and past the milliseconds of the decoder and of the model without a cache, and the bytes of the programs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from _measuring import interleaved
from rich.console import Console

from hardware_profiles.runtimes import onnx_runtime, xnnpack
from nas.core.subnet import Subnet
from nas.stages.export.programs import DECODER, MODEL, decoder_of
from nas.stages.export.request import ExportRequest
from nas.stages.export.run import run
from nas.stages.export.shipment import Shipment
from nas.stages.measure.run import open_subnets
from nas.terminal.progress import TerminalProgress

RUNTIMES = {"onnx": (onnx_runtime, ".onnx"), "executorch": (xnnpack, ".pte")}


def exported(subnet: Subnet, name: str, int8: bool, length: int | None, out: Path) -> Path:
    """The folder of an export. A loss of int8 does not matter here."""
    with TerminalProgress(Console(stderr=True)) as progress:
        return run(ExportRequest(str(subnet.path), name, int8, out, length, 9.0 if int8 else None), progress).folder


def timed(subnet: Subnet, name: str, past: int, folder: Path, precision: str, rounds: int) -> list[float]:
    """Milliseconds of one more token: by the decoder, and by the model on all tokens."""
    runtime, suffix = RUNTIMES[name]
    fixed = name == "executorch"
    shipment = Shipment(subnet, past + 1 if fixed else subnet.arch.context, False)
    step = decoder_of(shipment, fixed)
    assert step is not None, "it does not decode"
    inputs = {DECODER: step.example(1, 1, past, past + 1), MODEL: shipment.example(1, past + 1)}
    runs = {each: runtime.load(str(folder / f"{each}{suffix}"), [tensor.numpy() for tensor in given],
                               {"threads": 1, "precision": precision}) for each, given in inputs.items()}
    return [round(1e3 * seconds, 4) for seconds in interleaved(runs, rounds).values()]


def figures(subnet: Subnet, name: str, pasts: list[int], rounds: int, root: Path) -> dict[str, Any]:
    """Of both precisions of a format."""
    found: dict[str, Any] = {}
    for precision in ("fp32", "int8"):
        at = {}
        for past in (each for each in pasts if each < subnet.arch.context):
            fixed = name == "executorch"
            folder = root / f"{subnet.path.name}-{name}-{precision}-{past if fixed else 0}"
            if not folder.exists():
                exported(subnet, name, precision == "int8", past + 1 if fixed else None, folder)
            suffix = RUNTIMES[name][1]
            sizes = {path.name: path.stat().st_size for path in sorted(folder.glob(f"*{suffix}"))}
            at[past] = {"decode_ms, whole_ms": timed(subnet, name, past, folder, precision, rounds), "bytes": sizes}
        found[precision] = at
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subnets", nargs="+")
    parser.add_argument("--past", nargs="+", type=int, default=[16, 32, 64, 128])
    parser.add_argument("--formats", nargs="+", default=list(RUNTIMES), choices=list(RUNTIMES))
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as root:
        print(json.dumps({str(subnet.path): {name: figures(subnet, name, options.past, options.rounds, Path(root))
                                             for name in options.formats}
                          for subnet in open_subnets(options.subnets)}))


if __name__ == "__main__":
    main()
