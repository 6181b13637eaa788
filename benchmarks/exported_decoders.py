"""Whether exported decoders generate the same greedy tokens as `nas generate` and `nas translate`.

    python benchmarks/exported_decoders.py [SPACE...] [--formats onnx torch-export executorch] [--per-space 20]
        [--results benchmarks/results]

Draws architectures of each space, with random weights, norms and biases, exports the decoder with its cache (and for
seq2seq the encoder), and generates with the folder's `run.py`. With `--results`, architectures that the file already
has are skipped, so a stopped run resumes. Prints one line per architecture and one JSON line per format.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import random
import runpy
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from _results import add_option, append

from nas.core.progress import StageProgress
from nas.core.subnet import Subnet
from nas.stages.export import formats
from nas.stages.export.job import ExportJob
from nas.stages.use.request import GenerateRequest, PredictRequest
from nas.stages.use.run import generate, predict
from nas.tasks.tokenizer import BOS, EOS
from nas.testing.parity import randomised
from nas.testing.small_subnets import ship, tokenizer
from search_spaces import Architecture, load_space
from supernet import Transformer, extract

NAME = "exported_decoders"
SPACES = ("lm-small", "lm-mixed", "seq2seq-small")
FORMATS = ("onnx", "torch-export", "executorch")
TEXTS = {"lm": "12+3=4", "seq2seq": "7"}
"""`nas translate` writes at most twice the tokens of the source, which ends with `<eos>`, and ten more."""
TOKENS = 12
LENGTH = 24
"""Of programs whose cache has a fixed size: room for the text and the generated tokens."""
SCALES = (0.1, 0.2, 0.4, 0.8, 0.1, 0.2, 0.4, 0.8)
"""Deviations of the noise that draws add to matrices."""
PER_PROCESS = 10
"""Architectures that one process exports; compilers keep memory."""


def drawn(space: str, place: int) -> Architecture:
    """The architecture at a place of an endless list."""
    return load_space(space).sample(random.Random(f"exported decoder {place}"))


def restless(space: str, place: int) -> Transformer:
    """A model that does not write the same token over and over, which random weights mostly do: of several draws of
    weights, the one that writes the most different tokens."""
    arch, net = drawn(space, place), randomised(load_space(space), place)
    ids = tokenizer(arch.vocab_size).encode(TEXTS[arch.family]).ids
    source, begin = ([EOS, *ids], None) if arch.family == "lm" else ([*ids, EOS], BOS)
    models = []
    for seed, scale in enumerate(SCALES):
        model, generator = extract(net, arch).eval(), torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, tensor in model.named_parameters():
                if name.endswith("weight") and not name.startswith("embedding"):
                    tensor.add_(torch.randn(tensor.shape, generator=generator) * (scale if tensor.dim() > 1 else 1.0))
        written = model.generate(torch.tensor([source]), TOKENS, begin=begin, stop=EOS)[0].tolist()
        models.append((len(set(written)), seed, model))
    return max(models)[2]


def compared(space: str, name: str, place: int) -> dict[str, Any]:
    """One row: whether the export generates the same tokens, and how many."""
    torch.set_num_threads(1)
    model = restless(space, place)
    arch = model.arch
    with tempfile.TemporaryDirectory() as root:
        subnet = ship(model, Path(root, "subnet"))
        folder = Path(root, "export")
        folder.mkdir()
        fixed = not formats.get(name).DYNAMIC
        formats.get(name).write(ExportJob(subnet, LENGTH if fixed else arch.context, False, whole=False), folder)
        ids, equal = (continued if arch.family == "lm" else translated)(subnet, runpy.run_path(str(folder / "run.py")))
    kinds = sorted({layer.mixer.kind for layer in arch.decoder})
    return {"space": space, "format": name, "key": arch.key[:12], "equal": equal, "tokens": len(ids),
            "distinct_tokens": len(set(ids)), "mixers": " ".join(kinds)}


def continued(subnet: Subnet, run: dict[str, Any]) -> tuple[list[int], bool]:
    """The tokens of the export's `run.py`, and whether `nas generate` generates the same."""
    text, ids = TEXTS["lm"], run["TOKENIZER"].encode(TEXTS["lm"]).ids
    written = run["greedy"](ids, TOKENS)
    expected = generate(GenerateRequest(str(subnet.path), text, TOKENS, temperature=0.0), StageProgress())
    plain = subnet.model().generate(torch.tensor([ids]), TOKENS, stop=EOS)[0].tolist()
    return written, written == plain and run["TOKENIZER"].decode(written) == expected.text


def translated(subnet: Subnet, run: dict[str, Any]) -> tuple[list[int], bool]:
    """The tokens of the export's `run.py`, and whether `nas translate` writes the same."""
    text = TEXTS["seq2seq"]
    source, mask, *types = run["read"](text)
    n = 2 * int(mask.sum()) + 10  # without padding, as `nas translate` counts
    written = run["greedy"]([BOS], n, mask, *run["load"]("encoder")(source, mask, *types))
    answer = next(iter(predict(PredictRequest(str(subnet.path), [text], "translate"), StageProgress())))
    ids = torch.from_numpy(source)[:, : int(mask.sum())]
    plain = subnet.model().generate(ids, n, begin=BOS, stop=EOS)[0].tolist()
    return written, written == plain and run["TOKENIZER"].decode(written).strip() == answer.line.strip()


def stored(results: Path | None) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Rows of earlier runs by space, format and key."""
    path = results / f"{NAME}.csv" if results else None
    if path is None or not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["space"], row["format"], row["key"]): row for row in csv.DictReader(file)}


def of_format(name: str, spaces: list[str], n: int, results: Path | None) -> list[dict[str, Any]]:
    """The rows of a format; those that the file does not have are computed and appended one by one."""
    wanted = [(space, place, drawn(space, place).key[:12]) for space in spaces for place in range(n)]
    done = stored(results)
    missing = [(space, place) for space, place, key in wanted if (space, name, key) not in done]
    context, fresh = multiprocessing.get_context("spawn"), dict[tuple[str, str, str], dict[str, Any]]()
    for start in range(0, len(missing), PER_PROCESS):
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            for space, place in missing[start : start + PER_PROCESS]:
                row = pool.submit(compared, space, name, place).result()
                fresh[space, name, row["key"]] = row
                append(results, NAME, [row])
                print(json.dumps(row), flush=True)
    rows = done | fresh
    return [rows[space, name, key] for space, _, key in wanted]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", default=SPACES, metavar="SPACE")
    parser.add_argument("--formats", nargs="+", default=FORMATS, choices=FORMATS)
    parser.add_argument("--per-space", type=int, default=20)
    add_option(parser)
    options = parser.parse_args()
    fine = True
    for name in options.formats:
        rows = of_format(name, options.spaces, options.per_space, options.results)
        equal = {space: [str(row["equal"]) == "True" for row in rows if row["space"] == space]
                 for space in options.spaces}
        print(json.dumps({"benchmark": NAME, "format": name, "same_greedy_tokens": {
            space: f"{sum(each)} of {len(each)}" for space, each in equal.items()},
            "tokens": sum(int(row["tokens"]) for row in rows),
            "mixers": sorted({kind for row in rows for kind in row["mixers"].split()})}), flush=True)
        fine &= all(map(all, equal.values()))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
