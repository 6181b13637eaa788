"""How the time of every token mixer grows with the length, and from which length it beats full attention.

    python benchmarks/mixer_scaling.py [--kinds performer ...] [--longest 4096] [--rounds 5] [--width 256]
    python benchmarks/mixer_scaling.py --results benchmarks/results

One sequence, one thread, as encoders; kinds and lengths take turns in random order. Prints one JSON line: for each kind
the seconds by length, the exponent (the slope of log time over log length between the longest length and a quarter of
it), and the first length from which on it is faster than attention; null where it never is.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import replace

import _results
import torch
from _measuring import interleaved

from search_spaces import registry as kinds
from search_spaces.block import BlockConfig
from search_spaces.kind import Facts, Kind, Value
from search_spaces.units import make_unit
from supernet.build import build_unit, fresh
from supernet.call import Call

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
    _results.add_option(parser)
    arguments = parser.parse_args()
    if arguments.rounds < 4 or arguments.longest < FIRST:
        parser.error(f"at least 4 rounds give a 20 % quantile, and the shortest length is {FIRST}")
    torch.set_num_threads(1)
    lengths = [FIRST * 2**i for i in range(int(math.log2(arguments.longest / FIRST)) + 1)]
    facts = replace(FACTS, width=arguments.width, context=arguments.longest)
    measured = sorted({*arguments.kinds, REFERENCE})
    seconds = interleaved({f"{name} {n}": work for name in measured for n, work in _work(name, facts, lengths).items()},
                          arguments.rounds)
    times = {name: {n: seconds[f"{name} {n}"] for n in lengths} for name in measured}
    timings = {name: {"seconds": {str(n): float(f"{value:.4g}") for n, value in times[name].items()},
                    "exponent": round(_exponent(times[name]), 3),
                    "beats_attention_from": _beats(times[name], times[REFERENCE])} for name in measured}
    print(json.dumps({"benchmark": "mixer_scaling", "device": "cpu", "width": facts.width, "kinds": timings}))
    rows = ({"kind": name, "width": facts.width, "exponent": row["exponent"],
             "beats_attention_from": row["beats_attention_from"] or "",
             **{f"seconds_{n}": value for n, value in row["seconds"].items()}} for name, row in timings.items())
    _results.append(arguments.results, "mixer_scaling", rows)


def _work(name: str, facts: Facts, lengths: list[int]) -> dict[int, Callable[[], object]]:
    kind = kinds.get(name)
    unit = make_unit("mixer", BlockConfig.of(name, mixer_dims(kind, facts)), facts)
    module = fresh(build_unit(unit), torch.Generator().manual_seed(0)).eval().requires_grad_(False)

    def at(n: int) -> Callable[[], object]:
        x = torch.randn(1, n, facts.width)
        return lambda: module(x, Call())

    return {n: at(n) for n in lengths}


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


def _exponent(times: dict[int, float]) -> float:
    """The slope of log time over log length at the long end."""
    longest = max(times)
    other = max(longest // 4, min(times))
    return math.log(times[longest] / times[other]) / math.log(longest / other) if other < longest else math.nan


def _beats(times: dict[int, float], reference: dict[int, float]) -> int | None:
    """The first length from which on every time is less than the reference."""
    slower = [n for n in times if times[n] >= reference[n]]
    faster = [n for n in times if n > max(slower, default=0)]
    return min(faster) if faster else None


if __name__ == "__main__":
    main()
