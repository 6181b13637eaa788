"""How the time of every token mixer grows with the length, and from which length it beats full attention.

    python benchmarks/mixer_scaling.py [--kinds performer ...] [--longest 4096] [--rounds 5] [--width 256] [--limit 10]
    python benchmarks/mixer_scaling.py --journal scaling.jsonl --results benchmarks/results

One sequence, one thread, as encoders; kinds and lengths take turns in random order. A length is skipped where the
length before it took more than a quarter of the limit in seconds. With a journal every single time is written down,
and the same command resumes a run that was stopped.

Prints one JSON line: for each kind the seconds by length (20 % quantile), the exponent (the least-squares slope of log
time over log length at the three longest lengths), the first length from which on it is faster than attention (null
where it never is), and the skipped lengths.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import _results
import torch

from search_spaces import registry as kinds
from search_spaces.block import BlockConfig
from search_spaces.kind import Facts, Kind, Value
from search_spaces.units import make_unit
from supernet.build import build_unit, fresh
from supernet.call import Call

Times = dict[tuple[str, int], list[float]]
"""The seconds of a kind at a length, one for each round; the first is the warm-up."""
FIRST, REFERENCE = 128, "attention"
FACTS = Facts(width=256, context=4096, vocab_size=1, n_classes=1, n_types=0, causal=False, positions="none",
              norm="layernorm", placement="pre", bias=True)
DIMS: dict[str, Value] = {
    "n_heads": 4, "head_dim": 64, "n_kv_heads": 4, "reach": 64, "n_global": 0, "dilation": 4, "stride": 64, "rank": 64,
    "n_features": 64, "n_frequencies": 32, "n_buckets": 64, "chunk": 64, "rounds": 2, "block": 64, "max_span": 64,
    "iterations": 4, "n_random": 2, "scores": "dense", "kernel": 7, "mix_kernel": 9, "inner": 512, "ratio": 0.5,
    "depth": 4, "multiplier": 2.0, "n_fixed": 3, "n_learned": 1, "group_start": 1,
    "bottleneck": 64, "stack": 2, "modules": 4, "queries": 1,
}
"""The dims that are measured, by name; other dims have their defaults."""


def main() -> None:
    """Time and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    mixers = sorted(name for name, kind in kinds.registry().items() if kind.role == "mixer")
    parser.add_argument("--kinds", nargs="+", choices=mixers, default=mixers)
    parser.add_argument("--longest", type=int, default=FACTS.context)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, default=FACTS.width)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of one forward pass")
    parser.add_argument("--journal", type=Path, help="file of the single times, to resume a stopped run")
    _results.add_option(parser)
    arguments = parser.parse_args()
    if arguments.rounds < 4 or arguments.longest < FIRST:
        parser.error(f"at least 4 rounds give a 20 % quantile, and the shortest length is {FIRST}")
    torch.set_num_threads(1)
    lengths = [FIRST * 2**i for i in range(int(math.log2(arguments.longest / FIRST)) + 1)]
    facts = replace(FACTS, width=arguments.width, context=arguments.longest)
    measured = sorted({*arguments.kinds, REFERENCE})
    settings = {"width": facts.width, "context": facts.context, "limit": arguments.limit}
    times = measure(measured, lengths, facts, arguments.rounds, arguments.limit, Journal(arguments.journal, settings))
    summaries = summary(measured, lengths, times)
    print(json.dumps({"benchmark": "mixer_scaling", "device": "cpu", "width": facts.width, "limit": arguments.limit,
                      "kinds": summaries}))
    rows = ({"kind": name, "width": facts.width, "exponent": row["exponent"],
             "beats_attention_from": row["beats_attention_from"] or "",
             **{f"seconds_{n}": row["seconds"].get(str(n), "") for n in lengths}} for name, row in summaries.items())
    _results.append(arguments.results, "mixer_scaling", rows)


class Journal:
    """The times of a run, one line each; the first line has the settings. Without a path nothing is kept."""

    def __init__(self, path: Path | None, settings: dict[str, float]) -> None:
        self.path = path
        text = path.read_text("utf-8") if path is not None and path.exists() else ""
        text = text[: text.rfind("\n") + 1] or json.dumps(settings) + "\n"  # without a line that was cut off
        if path is not None:
            path.write_text(text, "utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        if lines[0] != settings:
            sys.exit(f"{path} has the settings {lines[0]}, not {settings}; use another --journal")
        self.times: Times = {}
        for name, n, seconds in lines[1:]:
            self.times.setdefault((name, n), []).append(seconds)

    def add(self, name: str, n: int, seconds: float) -> None:
        """Record one time."""
        self.times.setdefault((name, n), []).append(seconds)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([name, n, seconds]) + "\n")


def measure(names: list[str], lengths: list[int], facts: Facts, rounds: int, limit: float, journal: Journal) -> Times:
    """Warm up from short to long, up to the limit, then time in random order what the journal does not have."""
    works = {name: workloads(name, facts) for name in names}
    for name in names:
        for n, shorter in zip(lengths, [0, *lengths]):
            if shorter and journal.times[name, shorter][0] > limit / 4:
                break
            if (name, n) not in journal.times:
                journal.add(name, n, _seconds(works[name](n)))
    total = sum(values[0] for (name, _), values in journal.times.items() if name in works)
    print(f"about {total * rounds / 60:.1f} minutes for {rounds} rounds", file=sys.stderr)
    for i in range(1, rounds + 1):
        order = [(name, n) for name in names for n in lengths if (name, n) in journal.times]
        random.Random(i).shuffle(order)
        for name, n in order:
            if len(journal.times[name, n]) <= i:
                journal.add(name, n, _seconds(works[name](n)))
    return journal.times


def workloads(name: str, facts: Facts) -> Callable[[int], Callable[[], object]]:
    """By length, the forward pass of one kind."""
    unit = make_unit("mixer", BlockConfig.of(name, mixer_dims(kinds.get(name), facts)), facts)
    module = fresh(build_unit(unit), torch.Generator().manual_seed(0)).eval().requires_grad_(False)

    def at(n: int) -> Callable[[], object]:
        x = torch.randn(1, n, facts.width, generator=torch.Generator().manual_seed(n))
        return lambda: module(x, Call())

    return at


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def summary(names: list[str], lengths: list[int], times: Times) -> dict[str, dict[str, Any]]:
    """By kind: the seconds by length, the exponent, where it beats attention, and the lengths that were skipped."""
    quantiles = {name: {n: statistics.quantiles(times[name, n][1:], n=5)[0] for n in lengths if (name, n) in times}
                 for name in names}
    return {name: {"seconds": {str(n): float(f"{value:.4g}") for n, value in quantiles[name].items()},
                   "exponent": round(exponent(quantiles[name]), 3),
                   "beats_attention_from": _beats(quantiles[name], quantiles[REFERENCE]),
                   "skipped": [n for n in lengths if n not in quantiles[name]]} for name in names}


def mixer_dims(kind: Kind, facts: Facts) -> dict[str, Value]:
    """The dims as a space file would give them, resolved; raises ValueError for one that has no value here."""
    raw = {dim.name: DIMS.get(dim.name, dim.default) for dim in kind.dims}
    missing = [name for name, value in raw.items() if value is None]
    if missing:
        raise ValueError(f"{kind.name} has the dim {missing[0]}, for which DIMS has no value")
    known = facts.as_dict()
    dims = kind.resolve({name: value for name, value in raw.items() if value is not None}, known)
    if kind.canonical is not None:
        same, dims = kind.canonical(dims, known)
        assert same == kind.name, f"the dims of {kind.name} are those of {same}"
    return dims


def exponent(times: dict[int, float]) -> float:
    """The slope of log time over log length at the three longest lengths."""
    lengths = sorted(times)[-3:]
    if len(lengths) < 2:
        return math.nan
    return statistics.linear_regression([math.log(n) for n in lengths], [math.log(times[n]) for n in lengths]).slope


def _beats(times: dict[int, float], reference: dict[int, float]) -> int | None:
    """The first length from which on every time is less than the reference."""
    both = times.keys() & reference.keys()
    slower = [n for n in both if times[n] >= reference[n]]
    return min((n for n in both if n > max(slower, default=0)), default=None)


if __name__ == "__main__":
    main()
