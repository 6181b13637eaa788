"""Uses exports where this project is not installed: in an environment of the runtime alone.

    python -m venv ORT && ORT/bin/pip install onnxruntime numpy tokenizers
    python -m tests.alone onnx --python ORT/bin/python [OTHER/bin/python ...]

Exports small models of every family with this interpreter, runs them with the other one, and compares with what
`nas generate`, `nas classify` and `nas translate` answer. Packages of the other environment: `onnxruntime`,
`executorch` and torch, or torch alone, with numpy and tokenizers; for `huggingface` transformers, torch and accelerate.
Prints a line for each interpreter.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nas.core.progress import StageProgress
from nas.core.subnet import Subnet
from nas.stages.export.request import ExportRequest
from nas.stages.export.run import run
from nas.stages.use.request import GenerateRequest, PredictRequest
from nas.stages.use.run import generate, predict
from supernet import extract
from tests import shipments
from tests.nas.stages.export.test_huggingface import used_alone
from tests.parity import randomised

TEXTS = ("12+3=4", "7")
NOT_THERE = ("nas", "supernet", "onnx", "onnxscript", "transformers")
"""Packages that no `run.py` needs."""
RUNTIMES = {"onnx": "onnxruntime", "executorch": "executorch", "torch-export": "torch"}
VERSION = "from importlib.metadata import version; print(version({name!r}))"
PACKAGES = "import importlib.util as u; print(*(n for n in {names!r} if u.find_spec(n)))"


def answer(subnet: Subnet, text: str) -> str:
    """What the command of the model's task answers."""
    if subnet.arch.family == "lm":
        return generate(GenerateRequest(str(subnet.path), text, 40, temperature=0.0), StageProgress()).text
    found = next(iter(predict(PredictRequest(str(subnet.path), [text]), StageProgress())))
    return getattr(found, "label", None) or found.line


def said(python: str, *arguments: str, cwd: Path | None = None) -> str:
    """What another interpreter prints; isolated, so that nothing of ours is found."""
    done = subprocess.run([python, "-I", *arguments], cwd=cwd, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


def programs(name: str, pythons: list[str], folder: Path, n: int) -> Iterator[str]:
    """Runs `run.py` of n architectures of each family on the texts. Gives a line for each interpreter."""
    for python in pythons:
        there = said(python, "-c", PACKAGES.format(names=NOT_THERE)).split()
        assert not there, f"{python} has {', '.join(there)}; use an environment without"
    same = {(python, family): 0 for python in pythons for family in shipments.SPACES}
    for family in shipments.SPACES:
        space, rng = shipments.space(family), random.Random("alone")
        net = randomised(space)
        for i in range(n):
            subnet = shipments.ship(extract(net, space.sample(rng)), folder / f"{family}-{i}")
            made = run(ExportRequest(str(subnet.path), name), StageProgress()).folder
            for text in TEXTS:
                expected = answer(subnet, text)
                for python in pythons:
                    found = said(python, "run.py", text, cwd=made)
                    assert found.strip("\n") == expected.strip("\n"), f"{family} {i}: {found!r}, not {expected!r}"
                    same[python, family] += 1
    for python in pythons:
        versions = said(python, "-c", VERSION.format(name=RUNTIMES[name])).strip()
        yield (f"{name}, {RUNTIMES[name]} {versions}: the answers of run.py equal ours: "
               + ", ".join(f"{family} {same[python, family]} of {len(TEXTS) * n}" for family in shipments.SPACES))


def transformers(python: str, folder: Path) -> str:
    """Fine-tunes, generates and saves in transformers; see `used_alone`. Gives a line."""
    found = used_alone(python, folder)
    losses = ", ".join(f"{family} {found[family]['losses'][0]:.3f} to {found[family]['losses'][1]:.3f}"
                       for family in shipments.SPACES)
    return (f"huggingface, transformers {found['transformers']}: logits, batched and single generation, beams, "
            f"translation, pipelines and saved copies as expected; loss of 20 Trainer steps: {losses}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", choices=("onnx", "executorch", "torch-export", "huggingface"))
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters of other environments")
    parser.add_argument("-n", type=int, default=2, help="architectures of each family")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.format == "huggingface":
            lines = (transformers(python, Path(folder, str(i))) for i, python in enumerate(options.python))
        else:
            lines = programs(options.format, options.python, Path(folder), options.n)
        for line in lines:
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
