"""File sizes of exports: fp32 and int8, of every format.

    python benchmarks/export_sizes.py [SPACE...] [--sample 0] [--results benchmarks/results]

Exports one architecture of each space, drawn with the seed `--sample`, with fresh weights (sizes do not depend on the
values), to every format that takes it and is installed. Prints one JSON line; bytes are of the programs or weights
alone, without tokenizer and code. `not_quantised` is the share of the multiply-adds of `model` that stays in fp32.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
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

SPACES = ("lm-small", "lm-mixed", "encoder-small", "seq2seq-small")
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


def of_space(space: str, seed: int, root: Path) -> list[dict[str, Any]]:
    """One row for each program of every format."""
    arch = load_space(space).sample(random.Random(seed))
    subnet = ship(Transformer(arch, seed=0), root / "subnet")
    rows = []
    for name in (known for known in formats.names() if formats.get(known).missing() is None):
        exported = {precision: sizes(subnet, name, precision == "int8", root / f"{name}-{precision}")
                for precision in ("fp32", *(["int8"] if formats.get(name).INT8 else []))}
        full, small = exported["fp32"], exported.get("int8")
        for program, n in (full or {"programs": {}})["programs"].items():
            row = {"space": space, "key": arch.key[:12], "format": name, "program": program, "fp32_bytes": n}
            if small is not None:
                share = small["not_quantised"]
                row |= {"int8_bytes": small["programs"][program], "ratio": round(small["programs"][program] / n, 4),
                          "not_quantised": "" if share is None else round(share, 4)}
            rows.append({**dict.fromkeys(("int8_bytes", "ratio", "not_quantised"), ""), **row})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", default=SPACES, metavar="SPACE")
    parser.add_argument("--sample", type=int, default=0, metavar="SEED")
    add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for space in options.spaces:
        with tempfile.TemporaryDirectory() as root:
            rows += of_space(space, options.sample, Path(root))
    order = ("space", "key", "format", "program", "fp32_bytes", "int8_bytes", "ratio", "not_quantised")
    rows = [{name: row[name] for name in order} for row in rows]
    print(json.dumps({"benchmark": "export_sizes", "rows": rows}))
    append(options.results, "export_sizes", rows)


if __name__ == "__main__":
    main()
