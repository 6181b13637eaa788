"""File sizes of exports: fp32 and int8, of every format.

    python benchmarks/export_sizes.py [SPACE...] [--formats onnx ...] [--sample 0] [--results benchmarks/results]

Exports one architecture of each space, drawn with the seed `--sample`, with fresh weights (sizes do not depend on the
values), to every format that takes it and is installed. Prints one JSON line per file; bytes are of programs or weights
alone, without tokenizer and code. `not_quantised` is the share of the multiply-adds of `model` that stays in fp32.
GGUF files are float16 where the others are fp32.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from _results import add_option, append

from nas.core.progress import StageProgress
from nas.core.subnet import Subnet
from nas.stages.export import formats
from nas.stages.export.request import ExportRequest
from nas.stages.export.run import run
from nas.testing.small_subnets import ship
from search_spaces import InputError, load_space
from supernet import Transformer

SPACES = ("lm-small", "lm-mixed", "encoder-small", "seq2seq-small", "benchmarks/spaces/llama-like.yaml")
"""The last one for GGUF, which takes models like Llama only."""
WEIGHTS = (".onnx", ".pte", ".pt2", ".gguf", ".safetensors")
"""Suffixes of the counted files."""


def sizes(subnet: Subnet, name: str, int8: bool, folder: Path) -> dict[str, Any] | None:
    """Bytes of each program of an export, and the share that is not quantised; None if the format does not take it."""
    try:
        done = run(ExportRequest(str(subnet.path), name, int8, folder, max_loss_increase=9.0 if int8 else None),
                   StageProgress())
    except InputError as error:
        print(f"{name}{' int8' if int8 else ''}: {error}", file=sys.stderr)
        return None
    programs = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.suffix in WEIGHTS}
    return {"programs": programs, "not_quantised": done.record.get("not_quantised")}


def of_space(space: str, seed: int, names: Sequence[str], root: Path) -> Iterator[dict[str, Any]]:
    """One row for each program of every format."""
    loaded = load_space(space)
    arch = loaded.sample(random.Random(seed))
    subnet = ship(Transformer(arch, seed=0), root / "subnet")
    for name in (known for known in names if formats.get(known).missing() is None):
        exported = {precision: sizes(subnet, name, precision == "int8", root / f"{name}-{precision}")
                    for precision in ("fp32", *(["int8"] if formats.get(name).INT8 else []))}
        full, small = exported["fp32"], exported.get("int8")
        for program, n in (full or {"programs": {}})["programs"].items():
            row = {"space": loaded.name, "key": arch.key[:12], "format": name, "program": program, "fp32_bytes": n,
                   "int8_bytes": "", "ratio": "", "not_quantised": ""}
            if small is not None:
                share, n_small = small["not_quantised"], small["programs"][program]
                row |= {"int8_bytes": n_small, "ratio": round(n_small / n, 4),
                        "not_quantised": "" if share is None else round(share, 4)}
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", default=SPACES, metavar="SPACE")
    parser.add_argument("--formats", nargs="+", default=formats.names(), choices=formats.names())
    parser.add_argument("--sample", type=int, default=0, metavar="SEED")
    add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for space in options.spaces:
        with tempfile.TemporaryDirectory() as root:
            for row in of_space(space, options.sample, options.formats, Path(root)):
                print(json.dumps({"benchmark": "export_sizes", **row}), flush=True)
                append(options.results, "export_sizes", [row])


if __name__ == "__main__":
    main()
