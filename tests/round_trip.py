"""The supernet against extracted models and against each of their exports: how far outputs differ.

Used by `make roundtrip`; the tests do the same with tiny spaces. Every architecture is tried in a process that ends
after a few, as compilers keep memory. With --keep, what is finished stays in a file and a stopped run goes on after it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import runpy
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from nas.core.subnet import Subnet
from nas.stages.export import formats
from nas.stages.export.checking import MOST_LOSS
from nas.stages.export.request import TOLERANCE
from nas.tasks.tokenizer import BOS, EOS
from search_spaces import InputError, SearchSpace, load_space
from supernet import extract
from tests import parity, shipments

SPACES = ("lm-tiny", "encoder-small", "seq2seq-small")
EVERY = [name for name in formats.names() if name != "gguf"]
"""Formats that take any model."""
TOKENS = " tokens"
WRITTEN = 32
"""Tokens that exported decoders write."""
PER_PROCESS = 4
"""Architectures that one process tries."""


def drawn(space: SearchSpace, place: int):
    """The architecture at a place of an endless list."""
    return space.sample(random.Random(f"round trip {place}"))


def trip(name: str, place: int, int8: bool, wanted: list[str]) -> dict:
    """The largest difference of each way of running one architecture: over its largest logit, or in nats for int8."""
    torch.set_num_threads(1)
    from nas.core.progress import StageProgress
    from nas.stages.export.request import ExportRequest
    from nas.stages.export.run import run

    space = load_space(name)
    net, arch = parity.randomised(space, place), drawn(space, place)
    model = extract(net, arch).eval()
    inputs, keywords = parity.batch(arch, place)
    with torch.no_grad():
        plain, bound = model(*inputs, **keywords), net(arch, *inputs, **keywords)
    found = {"extracted": float((plain - bound).abs().max() / plain.abs().max())}
    del net
    with tempfile.TemporaryDirectory() as folder:
        subnet = shipments.ship(model, Path(folder, "subnet"))
        path = str(subnet.path)
        requests = [ExportRequest(path, each) for each in wanted]
        requests += [ExportRequest(path, each, int8=True) for each in wanted if int8 and formats.get(each).INT8]
        for each in requests:
            try:
                exported = run(each, StageProgress())
                record = exported.record
                found[each.name] = record["loss"] - record["plain_loss"] if each.int8 else record["largest_difference"]
                if "decoder_largest_difference" in record:
                    found[f"{each.name} decoder"] = record["decoder_largest_difference"]
                    found[f"{each.name}{TOKENS}"] = other_tokens(exported.folder, subnet, place)
            except InputError as error:
                found[each.name] = str(error)
    return {"space": name, "place": place, "key": arch.key, "differences": found}


def other_tokens(folder: Path, subnet: Subnet, place: int) -> float:
    """1 if the `run.py` of an export writes other tokens than the model, greedily and with its cache; 0 if the same."""
    model, arch, run = subnet.model(), subnet.arch, runpy.run_path(str(folder / "run.py"))
    n = min(arch.context // 2, WRITTEN)
    generator = torch.Generator().manual_seed(place)
    ids = torch.randint(4, arch.vocab_size, (1, min(5, arch.context // 4)), generator=generator)
    if arch.family == "lm":
        return float(run["greedy"](ids[0].tolist(), n) != model.generate(ids, n, stop=EOS)[0].tolist())
    rest = max(run["CONFIG"]["least_length"] - ids.shape[1], 0)
    source, mask = (F.pad(each, (0, rest)).numpy() for each in (ids, torch.ones_like(ids)))
    types = [np.zeros_like(source)] if arch.n_types else []
    written = run["greedy"]([BOS], n, mask, *run["load"]("encoder")(source, mask, *types))
    return float(written != model.generate(ids, n, begin=BOS, stop=EOS)[0].tolist())


def good(name: str, difference: float | str) -> bool:
    """Whether a way of running a model is the same."""
    return not isinstance(difference, str) and difference <= (MOST_LOSS if name.endswith("-int8") else TOLERANCE)


def summary(space: str, rows: list[dict]) -> tuple[str, bool]:
    """One line for a space, and whether all is well."""
    ways = list(dict.fromkeys(way for row in rows for way in row["differences"]))
    found = {way: [row["differences"][way] for row in rows if way in row["differences"]] for way in ways}
    fine = all(good(way, each) for way, those in found.items() for each in those)
    worst = {way: max((each for each in those if not isinstance(each, str)), default=float("nan"))
             for way, those in found.items() if not way.endswith(TOKENS)}
    equal = [f"{way.removesuffix(TOKENS)} {those.count(0.0)} of {len(those)}" for way, those in found.items()
             if way.endswith(TOKENS)]
    family = load_space(space).family
    return (f"{family} ({space}): {len(rows)} architectures; largest difference to the plain model: "
            + ", ".join(f"{'supernet' if way == 'extracted' else way} {value:.1e}" for way, value in worst.items())
            + (f"; same greedy tokens: {', '.join(equal)}" if equal else "")
            + f": {'ok' if fine else 'FAILED'}"), fine


def kept(path: Path | None, int8: bool) -> list[dict]:
    """What is finished; without int8, where that is asked for, nothing is."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path and path.is_file() else []
    return [row for row in rows if not int8 or any(way.endswith("-int8") for way in row["differences"])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per-family", type=int, default=20)
    parser.add_argument("--int8", action="store_true", help="try int8 exports too")
    parser.add_argument("--formats", nargs="+", default=EVERY, help="formats to try; those that take any model")
    parser.add_argument("--keep", type=Path, help="a file of finished architectures, to go on after a stop")
    parser.add_argument("spaces", nargs="*", default=SPACES)
    options = parser.parse_args()
    done, fine = kept(options.keep, options.int8), True
    for name in options.spaces:
        rows = [row for row in done if row["space"] == name and row["place"] < options.per_family]
        todo = [place for place in range(options.per_family) if place not in {row["place"] for row in rows}]
        for start in range(0, len(todo), PER_PROCESS):
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh:
                for place in todo[start : start + PER_PROCESS]:
                    row = fresh.submit(trip, name, place, options.int8, options.formats).result()
                    rows.append(row)
                    if options.keep:
                        with options.keep.open("a") as file:
                            file.write(json.dumps(row) + "\n")
                    for way, each in row["differences"].items():
                        if not good(way, each):
                            print(f"  FAILED {row['key'][:12]} {way}: {each}", flush=True)
        line, well = summary(name, rows)
        print(line, flush=True)
        fine &= well
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
