"""What a cache gains: the latency of one more token with the exported decoder, against reading the whole text again.

    python benchmarks/decoding.py SUBNET|SPACE... [--past 16 32 64 128] [--precisions fp32 int8] [--rounds 60]
        [--results benchmarks/results]

Takes subnets, or for a space the architecture of its seed 0 with fresh weights and a context that the longest past
fits into. Runs it in PyTorch, and exports it to onnx and executorch. Runtimes, precisions and pasts are timed on one
thread in the same rounds, in random order. ExecuTorch programs have a fixed size: they are exported for each past.
Prints a JSON line for each runtime, precision and past: milliseconds of one token with and without the cache. Without,
seq2seq models read the source again, too. Pasts that leave no room in the context of a subnet are left out.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from _measuring import interleaved
from _results import add_option, append
from torch import Tensor

from hardware_profiles.runtimes import onnx_runtime, torch_eager, xnnpack
from nas.core.subnet import Subnet
from nas.stages.export import formats
from nas.stages.export.job import ExportJob
from nas.stages.export.programs import DECODER, MODEL, decoder_of
from nas.stages.measure.run import open_subnets
from nas.testing.small_subnets import ship
from search_spaces import load_space, shipped_spaces
from supernet import Transformer

RUNTIMES = ("torch", "onnx", "executorch")
COMPILED: dict[str, tuple[Any, str]] = {"onnx": (onnx_runtime, ".onnx"), "executorch": (xnnpack, ".pte")}
"""Runtimes of export formats, and the suffix of their programs."""
Timed = Callable[[], float]


@dataclass(frozen=True)
class Case:
    """One line of the result."""

    runtime: str
    precision: str
    past: int


def subnets(names: list[str], pasts: list[int], root: Path) -> Iterator[tuple[str, Subnet]]:
    """What to time, by the user's name."""
    for name in names:
        if name in shipped_spaces():
            arch = load_space(name).sample(random.Random(0))
            arch = replace(arch, context=max(arch.context, max(pasts) + 1))
            yield name, ship(Transformer(arch, seed=0), root / name)
        else:
            yield from ((str(subnet.path), subnet) for subnet in open_subnets([name]))


def cases(subnet: Subnet, options: argparse.Namespace) -> list[Case]:
    """What can be timed of a subnet. PyTorch runs fp32 only."""
    return [Case(runtime, precision, past) for runtime in options.runtimes for precision in options.precisions
            for past in options.past if past < subnet.arch.context and (runtime != "torch" or precision == "fp32")]


def programs(subnet: Subnet, case: Case, root: Path) -> dict[str, Timed]:
    """The decoder and the model without a cache, each as a function that runs it once."""
    fixed = case.runtime == "executorch"
    job = ExportJob(subnet, case.past + 1 if fixed else subnet.arch.context, case.precision == "int8")
    step = decoder_of(job, fixed)
    assert step is not None, "it does not decode"
    inputs = {DECODER: step.example(1, 1, case.past, case.past + 1), MODEL: job.example(1, case.past + 1)}
    settings = {"threads": 1, "precision": case.precision}
    if case.runtime == "torch":
        modules = {DECODER: step, MODEL: job.module}
        return {name: torch_eager.load(modules[name], given, settings) for name, given in inputs.items()}
    folder = root / f"{case.runtime}-{case.precision}-{case.past if fixed else 'any'}"
    if not folder.exists():
        folder.mkdir(parents=True)
        formats.get(case.runtime).write(job, folder)
    runtime, suffix = COMPILED[case.runtime]
    return {name: runtime.load(str(folder / f"{name}{suffix}"), arrays(given), settings)
            for name, given in inputs.items()}


def arrays(tensors: Sequence[Tensor]) -> list[Any]:
    return [tensor.numpy() for tensor in tensors]


def rows_of(name: str, subnet: Subnet, options: argparse.Namespace, root: Path) -> Iterator[dict[str, Any]]:
    """The figures of a subnet: everything is compiled first, then timed in the same rounds."""
    todo = cases(subnet, options)
    runs = {f"{i} {program}": run for i, case in enumerate(todo)
            for program, run in programs(subnet, case, root).items()}
    seconds = interleaved(runs, options.rounds)
    for i, case in enumerate(todo):
        cached, whole = seconds[f"{i} {DECODER}"], seconds[f"{i} {MODEL}"]
        yield {"subnet": name, "key": subnet.arch.key[:12], "runtime": case.runtime, "precision": case.precision,
               "past": case.past, "with_cache_ms": round(1e3 * cached, 4), "without_cache_ms": round(1e3 * whole, 4),
               "ratio": round(cached / whole, 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="SUBNET|SPACE")
    parser.add_argument("--past", nargs="+", type=int, default=[16, 32, 64, 128])
    parser.add_argument("--runtimes", nargs="+", default=list(RUNTIMES), choices=RUNTIMES)
    parser.add_argument("--precisions", nargs="+", default=["fp32"], choices=("fp32", "int8"))
    parser.add_argument("--rounds", type=int, default=60)
    add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as root:
        for i, (name, subnet) in enumerate(subnets(options.names, options.past, Path(root, "subnets"))):
            for row in rows_of(name, subnet, options, Path(root, str(i))):
                print(json.dumps({"benchmark": "decoding", **row}), flush=True)
                append(options.results, "decoding", [row])


if __name__ == "__main__":
    main()
