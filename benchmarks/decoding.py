"""What a cache gains: the latency of one more token with the exported decoder, against reading the whole text again.

    python benchmarks/decoding.py SUBNET|SPACE... [--past 16 32 64 127] [--rounds 60] [--results benchmarks/results]

Exports subnets, or for a space the architecture of its seed 0 with fresh weights, to onnx and executorch, in fp32 and
int8, and times the files in their runtimes on one thread, in turns. ExecuTorch programs have a fixed size: they are
exported for each past. Prints one JSON line: for each subnet, format, precision and past the milliseconds of the
decoder and of the model without a cache. Pasts that leave no room in the context are left out; shipped spaces have 128.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from _measuring import interleaved
from _results import add_option, append
from rich.console import Console

from hardware_profiles.runtimes import onnx_runtime, xnnpack
from nas.core.subnet import Subnet
from nas.stages.export.programs import DECODER, MODEL, decoder_of
from nas.stages.export.request import ExportRequest
from nas.stages.export.run import run
from nas.stages.export.shipment import Shipment
from nas.stages.measure.run import open_subnets
from nas.terminal.progress import TerminalProgress
from nas.testing.small_subnets import ship
from search_spaces import load_space, shipped_spaces
from supernet import Transformer

RUNTIMES = {"onnx": (onnx_runtime, ".onnx"), "executorch": (xnnpack, ".pte")}


def subnets(names: list[str], root: Path) -> Iterator[tuple[str, Subnet]]:
    """What to time, by the user's name."""
    for name in names:
        if name in shipped_spaces():
            arch = load_space(name).sample(random.Random(0))
            yield name, ship(Transformer(arch, seed=0), root / name)
        else:
            yield from ((str(subnet.path), subnet) for subnet in open_subnets([name]))


def exported(subnet: Subnet, name: str, int8: bool, length: int | None, out: Path) -> Path:
    """The folder of an export. A loss of int8 does not matter here."""
    with TerminalProgress(Console(stderr=True)) as progress:
        return run(ExportRequest(str(subnet.path), name, int8, out, length, 9.0 if int8 else None), progress).folder


def timed(subnet: Subnet, name: str, past: int, folder: Path, precision: str, rounds: int) -> dict[str, float]:
    """Milliseconds of one more token: by the decoder, and by the model on all tokens."""
    runtime, suffix = RUNTIMES[name]
    fixed = name == "executorch"
    shipment = Shipment(subnet, past + 1 if fixed else subnet.arch.context, False)
    step = decoder_of(shipment, fixed)
    assert step is not None, "it does not decode"
    inputs = {DECODER: step.example(1, 1, past, past + 1), MODEL: shipment.example(1, past + 1)}
    runs = {size: runtime.load(str(folder / f"{size}{suffix}"), [tensor.numpy() for tensor in given],
                               {"threads": 1, "precision": precision}) for size, given in inputs.items()}
    seconds = interleaved(runs, rounds)
    return {"with_cache_ms": round(1e3 * seconds[DECODER], 4), "without_cache_ms": round(1e3 * seconds[MODEL], 4)}


def rows_of(subnet: Subnet, name: str, pasts: list[int], rounds: int) -> Iterator[dict[str, Any]]:
    """The figures of a format, in both precisions."""
    fixed = name == "executorch"
    for precision in ("fp32", "int8"):
        with tempfile.TemporaryDirectory() as root:
            for past in (length for length in pasts if length < subnet.arch.context):
                folder = Path(root, str(past) if fixed else "any")
                if not folder.exists():
                    exported(subnet, name, precision == "int8", past + 1 if fixed else None, folder)
                yield {"format": name, "precision": precision, "past": past,
                       **timed(subnet, name, past, folder, precision, rounds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="SUBNET|SPACE")
    parser.add_argument("--past", nargs="+", type=int, default=[16, 32, 64, 127])
    parser.add_argument("--formats", nargs="+", default=list(RUNTIMES), choices=list(RUNTIMES))
    parser.add_argument("--rounds", type=int, default=60)
    add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as root:
        rows = [{"subnet": name, "key": subnet.arch.key[:12], **row}
                for name, subnet in subnets(options.names, Path(root))
                for format_name in options.formats for row in rows_of(subnet, format_name, options.past,
                                                                      options.rounds)]
    print(json.dumps({"benchmark": "decoding", "rows": rows}))
    append(options.results, "decoding", rows)


if __name__ == "__main__":
    main()
