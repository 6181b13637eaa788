"""A seeded run of every stage and the digests of what it makes: shows that a refactoring changed no result.

    python -m tests.golden --out before.json             # before the change
    python -m tests.golden --out after.json --compare before.json

Prices are fixed: the device is estimated from a specification, not measured. Digests depend on the processor and on the
versions of PyTorch and ONNX Runtime, so compare two runs on one machine only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # sums of several threads round differently

import numpy as np
import torch
from safetensors.torch import load_file

from nas.cli import main

RUNS = {"lm": ("lm-tiny", "lm"), "encoder": ("encoder-small", "classification"),
        "seq2seq": ("seq2seq-small", "translation")}
SAMPLERS = ("random", "nsga2", "predictor")
DEVICE = "raspberry-pi-5-estimated"
SETTINGS = ("steps=60", "batch_size=4", "evaluate_limit=16", "dropout=0.1", "layerdrop=0.1",
            "lr=0.001")


def nas(*arguments: str) -> None:
    """Run a command that has to succeed."""
    if main(list(arguments)) != 0:
        raise SystemExit(f"failed: nas {' '.join(arguments)}")


def text_digest(text: str) -> str:
    """The first 16 digits of the SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def weights_digest(path: Path) -> str:
    """Of the tensors by name: independent of how the file is laid out."""
    found = hashlib.sha256()
    for name, tensor in sorted(load_file(path).items()):
        found.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        found.update(tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:16]


def onnx_digest(folder: Path) -> str:
    """Of the outputs on fixed tokens, rounded to 4 digits."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    tokens = np.arange(4, 20, dtype=np.int64)[None]
    inputs = {each.name: np.ones_like(tokens) if "mask" in each.name else tokens for each in session.get_inputs()}
    (logits, *_) = session.run(None, inputs)
    return text_digest(np.array2string(np.round(logits, 4) + 0.0, threshold=sys.maxsize))


def digests(family: str) -> Iterator[tuple[str, str]]:
    """Train, search, extract, retrain, compress and export in the working directory; the digest of each result."""
    space, task = RUNS[family]
    run = Path("runs", family)
    nas("train", "--space", space, "--task", task, "--run", family, *(f"--set={each}" for each in SETTINGS))
    yield f"{family}/supernet", weights_digest(run / "supernet.safetensors")
    nas("profile", DEVICE, "--space", str(run))
    for sampler in SAMPLERS:
        nas("search", family, "--device", DEVICE, "--trials", "60", "--limit", "8", "--sampler", sampler, "--fresh")
        yield f"{family}/trials.csv/{sampler}", text_digest((run / "trials.csv").read_text("utf-8"))
        yield f"{family}/pareto.json/{sampler}", text_digest((run / "pareto.json").read_text("utf-8"))
    nas("extract", family, "--knee")
    (subnet,) = (path.parent for path in (run / "subnets").glob("*/model.safetensors"))
    yield f"{family}/subnet", weights_digest(subnet / "model.safetensors")
    nas("retrain", str(subnet), "--set=steps=20", "--distill", "logits,features", "--out", "retrained")
    yield f"{family}/retrained", weights_digest(Path("retrained", "model.safetensors"))
    nas("compress", str(subnet), "--int8", "--out", "int8")
    yield f"{family}/int8", weights_digest(Path("int8", "model.safetensors"))
    nas("export", str(subnet), "--format", "onnx", "--out", "onnx")
    yield f"{family}/onnx outputs", onnx_digest(Path("onnx"))


def golden() -> dict[str, str]:
    """Every digest by name."""
    found: dict[str, str] = {}
    before = Path.cwd()
    for family in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                found |= dict(digests(family))
            finally:
                os.chdir(before)
    return found


def compare(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """What differs, a line each."""
    names = sorted({*before, *after})
    return [f"{name}: {before.get(name, 'missing')} -> {after.get(name, 'missing')}" for name in names
            if before.get(name) != after.get(name)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the digests to this file")
    parser.add_argument("--compare", type=Path, help="digests of an earlier run; exit code 1 where any differs")
    given = parser.parse_args()
    result = golden()
    if given.out:
        given.out.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    changed = compare(json.loads(given.compare.read_text("utf-8")), result) if given.compare else []
    print("\n".join([*changed, f"{len(result)} digests" + (f", {len(changed)} changed" if given.compare else "")]))
    sys.exit(bool(changed))
