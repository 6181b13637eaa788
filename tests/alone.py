"""Uses exports where this project is not installed: in an environment of the runtime alone.

    python -m venv ORT && ORT/bin/pip install onnxruntime numpy tokenizers
    python -m tests.alone onnx --python ORT/bin/python [OTHER/bin/python ...]

Exports small models of every family with this interpreter, uses them with the others, and compares with what
`nas generate`, `nas classify` and `nas translate` answer. `run.py` is run, and the lines that `nas export` prints are
pasted. `NEEDS` has the packages of each environment. Prints a line for each interpreter.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch

from nas import tasks
from nas.core.progress import StageProgress
from nas.core.subnet import Subnet
from nas.stages.export.request import ExportRequest
from nas.stages.export.run import run
from nas.stages.use.request import GenerateRequest, PredictRequest
from nas.stages.use.run import generate, predict
from nas.tasks.tokenizer import EOS
from search_spaces import load_space
from supernet import extract
from tests import shipments
from tests.nas.stages.export.test_huggingface import TEXT, used_alone
from tests.parity import randomised

TEXTS = (TEXT, "7")
NEEDS = {"onnx": ("onnxruntime", "numpy", "tokenizers"), "executorch": ("executorch", "torch", "numpy", "tokenizers"),
         "torch-export": ("torch", "numpy", "tokenizers"), "huggingface": ("transformers", "torch", "accelerate"),
         "gguf": ("llama_cpp_python", "numpy")}
"""The packages of each environment; executorch does not install torch by itself."""
OTHERS = ("nas", "supernet", "onnx", "onnxscript", "onnxruntime", "executorch", "torch", "transformers")
"""Packages that an environment must not have unless its format needs them."""
VERSIONS = ("import sys; from importlib.metadata import version; "
            "print(sys.version.split()[0], *(f'{{name}} {{version(name)}}' for name in {names!r}), sep=', ')")
PACKAGES = "import importlib.util as u; print(*(n for n in {names!r} if u.find_spec(n)))"
TOKENS = 12
LLAMA_TOKENS = f"""
import itertools, json
ids = model.tokenize({TEXT.encode()!r}, special=True)
print(json.dumps([ids, list(itertools.islice(model.generate(ids, temp=0), {TOKENS}))]))
"""
"""After the printed lines: the tokens of the text, and greedy tokens after them."""
LLAMA_LIKE = Path(__file__).parents[1] / "benchmarks" / "spaces" / "llama-like.yaml"


def answer(subnet: Subnet, text: str) -> str:
    """What the command of the model's task answers."""
    if subnet.arch.family == "lm":
        return generate(GenerateRequest(str(subnet.path), text, 40, temperature=0.0), StageProgress()).text
    found = next(iter(predict(PredictRequest(str(subnet.path), [text]), StageProgress())))
    return getattr(found, "label", None) or found.line


def said(python: str, *arguments: str, cwd: Path | None = None) -> str:
    """What another interpreter prints; isolated, so that nothing of ours is found."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run([python, "-I", *arguments], cwd=cwd, capture_output=True, text=True, timeout=900,
                              stdin=subprocess.DEVNULL, env={**os.environ, "HF_HOME": cache})
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment(name: str, python: str) -> str:
    """The versions of an environment, which must not have more than the format needs."""
    there = said(python, "-c", PACKAGES.format(names=[other for other in OTHERS if other not in NEEDS[name]])).split()
    assert not there, f"{python} has {', '.join(there)}; use an environment without"
    return f"{name}, python {said(python, '-c', VERSIONS.format(names=NEEDS[name])).strip()}"


def pasted(subnet: Subnet, name: str) -> str:
    """The lines that `nas export` printed, with a text that the small tokenizers can read."""
    sample = tasks.get(subnet.facts.task).sample
    return "\n".join(Subnet.open(str(subnet.path)).facts.exports[name]["usage"]).replace(repr(sample), repr(TEXT))


def same(found: str, expected: str, what: str) -> None:
    assert found.strip() == expected.strip(), f"{what}: {found!r}, not {expected!r}"


def programs(name: str, pythons: list[str], folder: Path, n: int) -> Iterator[str]:
    """Runs `run.py` of n architectures of each family on the texts. Gives a line for each interpreter."""
    counts: Counter[tuple[str, str]] = Counter()
    for family in shipments.SPACES:
        space, rng = shipments.space(family), random.Random("alone")
        net = randomised(space)
        for i in range(n):
            subnet = shipments.ship(extract(net, space.sample(rng)), folder / f"{family}-{i}")
            made = run(ExportRequest(str(subnet.path), name), StageProgress()).folder
            for python in pythons:
                for text in TEXTS:
                    same(said(python, "run.py", text, cwd=made), answer(subnet, text), f"{family} {i} {text}")
                    counts[python, family] += 1
                same(said(python, "-c", pasted(subnet, name)), answer(subnet, TEXT), f"{family} {i}, pasted")
    for python in pythons:
        yield (f"{environment(name, python)}: the answers of run.py equal ours, and the printed lines work: "
               + ", ".join(f"{family} {counts[python, family]} of {len(TEXTS) * n}" for family in shipments.SPACES))


def transformers(python: str, folder: Path) -> str:
    """Fine-tunes, generates and saves in transformers; see `used_alone`. Gives a line."""
    found = used_alone(python, folder)
    for family in shipments.SPACES:
        subnet = Subnet.open(str(folder / "subnets" / family))
        if family == "seq2seq":
            same(subnet.tokenizer().decode(found[family]["written"]), answer(subnet, TEXT), "nas translate")
        if family == "encoder":
            same(found[family]["pipeline"], answer(subnet, TEXT), "nas classify")
        assert said(python, "-c", pasted(subnet, "huggingface")).strip(), "nothing printed"
    losses = ", ".join(f"{family} {found[family]['losses'][0]:.3f} to {found[family]['losses'][1]:.3f}"
                       for family in shipments.SPACES)
    return (f"{environment('huggingface', python)}: logits, batched and single generation, beams, translation, "
            "pipelines, saved copies and the printed lines as expected; loss of 20 Trainer steps: " + losses)


def with_merges(subnet: Subnet) -> Subnet:
    """The same with a merge in its tokenizer, without which llama.cpp loads none."""
    path = subnet.path / "tokenizer.json"
    spec = json.loads(path.read_text("utf-8"))
    spec["model"]["merges"] = [["!", "!"]]
    path.write_text(json.dumps(spec), "utf-8")
    return Subnet.open(str(subnet.path))


def llama(pythons: list[str], folder: Path, n: int) -> Iterator[str]:
    """Continues a text in llama.cpp with models like Llama. Gives a line for each interpreter."""
    space, rng = load_space(str(LLAMA_LIKE)), random.Random("alone")
    net, counts = randomised(space), Counter[str]()
    for i in range(n):
        model = extract(net, space.sample(rng)).eval()
        subnet = with_merges(shipments.ship(model, folder / f"gguf-{i}"))
        run(ExportRequest(str(subnet.path), "gguf"), StageProgress())
        ids = [EOS, *subnet.tokenizer().encode(TEXT).ids]
        expected = [ids, model.generate(torch.tensor([ids]), TOKENS)[0].tolist()]
        for python in pythons:
            lines = pasted(subnet, "gguf")
            said(python, "-c", lines)
            counts[python] += json.loads(said(python, "-c", lines + LLAMA_TOKENS).splitlines()[-1]) == expected
    for python in pythons:
        yield (f"{environment('gguf', python)}: the printed lines work; the tokens of the text and {TOKENS} greedy "
               f"tokens after it equal ours: {counts[python]} of {n}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", choices=tuple(NEEDS))
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters of other environments")
    parser.add_argument("-n", type=int, default=2, help="architectures of each family")
    options = parser.parse_args()
    for python in options.python:
        print(environment(options.format, python), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        if options.format == "huggingface":
            lines = (transformers(python, Path(folder, str(i))) for i, python in enumerate(options.python))
        elif options.format == "gguf":
            lines = llama(options.python, Path(folder), options.n)
        else:
            lines = programs(options.format, options.python, Path(folder), options.n)
        for line in lines:
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
