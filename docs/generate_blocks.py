"""Writes docs/blocks.md, its pictures and docs/blocks.json from the declarations of all kinds: `make docs`.

Nothing here is a list of kinds. Formulas are derived: the plain module is built at every setting that the shipped
spaces have, and each axis of each tensor is named by the dims that it follows.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import combinations_with_replacement
from pathlib import Path

from nas.core.macs import unit_macs
from nas.stages.report.svg import draw_block, standalone
from search_spaces import load_space, shipped_spaces
from search_spaces import registry as kinds
from search_spaces.block import BlockConfig, block_faults
from search_spaces.kind import ROLES, SKIP, Facts, Kind
from search_spaces.space.inventory import inventory
from search_spaces.units import SUBLAYERS, Unit, make_unit
from supernet.build import build_on_meta

HERE = Path(__file__).parent
NOTE = "<!-- Written by docs/generate_blocks.py: change the code that it reads, then run make docs. -->\n"
PICTURES, INDEX, LATENCIES = "blocks", "blocks.json", HERE.parent / "benchmarks" / "results" / "mixer_scaling.csv"
ALONE = Facts(width=64, context=128, vocab_size=512, n_classes=2, n_types=0, causal=False, positions="learned",
              norm="layernorm", placement="pre", bias=True, rank=64)
"""Around kinds that no shipped space has."""
HEADINGS = {"embedding": "Embeddings", "mixer": "Token mixers", "cross": "Cross-attention", "ffn": "Feed-forwards",
            "between": "Between layers", "restore": "At the end of a stack", "head": "Heads"}
SHORT, LONG = 64, 128
"""Lengths whose multiply-adds show how a kind scales."""


def pages() -> dict[str, str]:
    """Every file that this script writes, by its name in docs/."""
    files = {"blocks.md": page(), INDEX: index()}
    for kind in _shown():
        unit = example(kind.name)
        width = int(dict(unit.facts).get("width", 1))
        files[f"{PICTURES}/{kind.name}.svg"] = standalone(draw_block(unit.block, unit.role, width))
    return files


def index() -> str:
    """Which kind is from which paper."""
    rows = {kind.name: {"role": kind.role, "paper": kind.paper, "arxiv": re.findall(r"arXiv:(\d+\.\d+)", kind.paper)}
            for kind in _shown()}
    return json.dumps({"schema_version": 1, "kinds": rows}, indent=1) + "\n"


def page() -> str:
    """The page of all kinds."""
    lines = [NOTE, "# Blocks", "",
             "Every kind of block. [Add a block](own_block.md) describes how to add one. Parameters and complexity are "
             "derived from the built module in the configuration that is shown: n is the sequence length, names are "
             "dims of the block or facts of the model. Norms and residuals around a block are not counted. "
             f"[{INDEX}]({INDEX}) has the publication of each kind in machine-readable form.", ""]
    for role in ROLES:
        shown = [kind for kind in _shown() if kind.role == role]
        if shown:
            lines += [f"## {HEADINGS[role]}", "", "| kind | description | complexity |", "|---|---|---|"]
            lines += [f"| [{kind.name}](#{kind.name}) | {_cell(kind.help)} | {complexity(kind.name)} |"
                      for kind in shown]
            lines += ["", *(line for kind in shown for line in _kind(kind))]
    return "\n".join([*lines, *_latencies()])


def _shown() -> list[Kind]:
    return [kind for name, kind in sorted(kinds.registry().items()) if name != SKIP]


def _kind(kind: Kind) -> Iterator[str]:
    unit = example(kind.name)
    yield from (f"### {kind.name}", "", f"{_sentence(kind.help)}" + ("" if kind.causal else " Not causal: encoders "
                                                                                            "only."), "")
    yield from (f"![{kind.name}]({PICTURES}/{kind.name}.svg)", "")
    if kind.dims:
        yield from ("| dim | default | description |", "|---|---|---|")
        for dim in kind.dims:
            default = "" if dim.default is None else f"`{json.dumps(dim.default).strip(chr(34))}`"
            yield f"| `{dim.name}` | {default} | {_cell(dim.help)}: {_cell(dim.allowed)} |"
        yield ""
    yield f"- Configuration: `{unit}`"
    yield f"- Parameters: {formula(kind.name)}"
    if kind.role in SUBLAYERS or kind.role == "head":
        yield f"- Multiply-adds of {LONG} tokens: {unit_macs(unit, LONG):,}; {complexity(kind.name)}"
    row = _measured().get(kind.name)
    yield from (f"- Latency on `cpu`: {_in_words(row)}",) if row else ()
    yield from (f"- Paper: {kind.paper}",) if kind.paper else ()
    yield ""


@lru_cache
def _units() -> dict[str, tuple[Unit, ...]]:
    """The units of each kind in the first shipped space that has it."""
    units_of: dict[str, dict[Unit, None]] = {}
    spaces = sorted(shipped_spaces(), key=lambda name: (not name.startswith("zoo-"), name))
    for space in spaces:
        before = set(units_of)
        for units in inventory(load_space(space)).values():
            for unit in units:
                if unit.role != "norm" and unit.length_fraction == 1 and unit.block.kind not in before:
                    units_of.setdefault(unit.block.kind, {}).setdefault(unit)
    for kind in _shown():
        if kind.name not in units_of:
            defaults = {dim.name: dim.default if dim.default is not None else 2 for dim in kind.dims}
            units_of[kind.name] = {make_unit(kind.role, BlockConfig.of(kind.name, defaults), ALONE): None}
    return {name: tuple(units) for name, units in units_of.items()}


def example(name: str) -> Unit:
    """The setting of a kind that is shown: the one with most parameters in the first space that has it."""
    return max(_units()[name], key=lambda unit: (sum(math.prod(shape) for _, shape in _shapes(unit)), str(unit)))


def _varied(unit: Unit) -> Iterator[Unit]:
    """The unit, and others in which one dim or fact is another number."""
    yield unit
    kind, facts, dims = kinds.get(unit.block.kind), replace(ALONE, **dict(unit.facts)), unit.block.filled()
    for name, value in _numbers(unit).items():
        for other in (2 * value, value + 1, 3 * value, value + 2, value - 1, value // 2):
            around = replace(facts, **{name: other}) if name in dict(unit.facts) else facts
            block = BlockConfig.of(kind.name, {**dims, name: other} if name in dims else dims)
            if other > 0 and not block_faults(block, kind.role, around):
                yield make_unit(kind.role, block, around)
                break


@lru_cache(maxsize=10_000)
def _shapes(unit: Unit) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The parameters of a block alone."""
    module = build_on_meta(unit)
    block = module.block if unit.role in SUBLAYERS else module
    return tuple((name, tuple(tensor.shape)) for name, tensor in block.named_parameters())


def _numbers(unit: Unit) -> dict[str, int]:
    """The whole numbers that sizes may depend on."""
    return {name: value for name, value in (*unit.facts, *unit.block.filled().items())
            if isinstance(value, int) and not isinstance(value, bool) and value > 0}


def formula(name: str) -> str:
    """The parameters of the example as a sum of products of dims, and the number."""
    unit = example(name)
    total = sum(math.prod(shape) for _, shape in _shapes(unit))
    if not total:
        return "none"
    others = list(_varied(unit))
    groups: dict[str, list[tuple[int, ...]]] = {}
    for tensor, shape in _shapes(unit):
        groups.setdefault(re.sub(r"\d+", "*", tensor), []).append(shape)
    terms: Counter[tuple[str, ...]] = Counter()
    for pattern, shapes in groups.items():
        axes = [_named(pattern, axis, unit, others) for axis in range(len(shapes[0]))]
        count = _counted(pattern, unit, others)
        if len(set(shapes)) > 1 or None in axes or count is None:
            return f"{total:,} in this configuration; the block derives its widths by a rule"
        factors = [factor for part in (count, *axes) for factor in str(part).split(" · ") if factor != "1"]
        terms[tuple(sorted(factors, key=lambda factor: (not factor[0].isdigit(), factor)))] += 1
    return f"{' + '.join(_product(factors, times) for factors, times in terms.items())} = {total:,}"


def _named(pattern: str, axis: int, unit: Unit, others: list[Unit]) -> str | None:
    """What the size of an axis of a parameter is, in every unit that has the parameter."""
    cases = []
    for other in others:
        sizes = {shape[axis] for tensor, shape in _shapes(other) if re.sub(r"\d+", "*", tensor) == pattern}
        cases += [(_numbers(other), sizes.pop())] if len(sizes) == 1 else []
    return _expression(_numbers(unit), cases)


def _counted(pattern: str, unit: Unit, others: list[Unit]) -> str | None:
    """How many parameters of a name that only differs in numbers there are."""
    if "*" not in pattern:
        return "1"
    cases = [(_numbers(other), sum(re.sub(r"\d+", "*", tensor) == pattern for tensor, _ in _shapes(other)))
             for other in others]
    return _expression(_numbers(unit), [case for case in cases if case[1]])


def _expression(numbers: Mapping[str, int], cases: list[tuple[dict[str, int], int]]) -> str | None:
    """The simplest expression that gives every case."""
    names = sorted(numbers)
    constant = cases[0][1] if cases else 0
    tried = [(name, lambda n, name=name: n[name]) for name in names]
    tried += [(f"{constant}", lambda n: constant)] if constant < 4 else []
    tried += [(f"{a} · {b}", lambda n, a=a, b=b: n[a] * n[b]) for a, b in combinations_with_replacement(names, 2)]
    tried += [(f"{c} · {name}", lambda n, c=c, name=name: c * n[name]) for name in names for c in (2, 3)]
    tried += [(f"{name}/{c}", lambda n, c=c, name=name: n[name] / c) for name in names for c in (2, 4)]
    tried += [(f"{a}/{b}", lambda n, a=a, b=b: n[a] / n[b]) for a in names for b in names if a != b]
    tried += [(f"{constant}", lambda n: constant)]
    return next((text for text, value in tried if cases and all(value(known) == size for known, size in cases)), None)


def _product(factors: tuple[str, ...], times: int) -> str:
    times *= math.prod(int(factor) for factor in factors if factor.isdigit())
    said = [f"{times}"] if times > 1 or all(factor.isdigit() for factor in factors) else []
    for factor, power in Counter(factor for factor in factors if not factor.isdigit()).items():
        inside = f"({factor})" if "/" in factor and power > 1 else factor
        said.append(inside + {1: "", 2: "²", 3: "³"}.get(power, f"^{power}"))
    return " · ".join(said)


@lru_cache
def complexity(name: str) -> str:
    """How multiply-adds grow with the length."""
    unit = example(name)
    short, long = unit_macs(unit, SHORT), unit_macs(unit, LONG)
    if unit.role == "cross":
        return "O(n m)"
    if not long:
        return "O(n), no multiplications"
    return "O(n)" if long <= 2.02 * short else "O(n²)"


@lru_cache
def _measured() -> dict[str, dict[str, str]]:
    """The latest measured latencies of each mixer."""
    if not LATENCIES.exists():
        return {}
    with LATENCIES.open(encoding="utf-8") as file:
        return {row["kind"]: row for row in csv.DictReader(file)}


def _lengths(row: Mapping[str, str]) -> list[str]:
    """The columns of seconds, shortest length first."""
    return [name for name, value in row.items() if name.startswith("seconds_") and value]


def _in_words(row: Mapping[str, str]) -> str:
    """The latency at the ends, how it grows, and where it is less than that of attention."""
    ends = [f"{1e3 * float(row[name]):.3g} ms for {int(name.removeprefix('seconds_')):,} tokens"
            for name in dict.fromkeys((_lengths(row)[0], _lengths(row)[-1]))]
    if row["kind"] == "attention":
        wins = "the reference"
    elif row["beats_attention_from"]:
        wins = f"faster than attention from {int(float(row['beats_attention_from'])):,} tokens on"
    else:
        wins = "not faster than attention at these lengths"
    return f"{' and '.join(ends)} at width {row['width']}; it grows with the length to the power of " \
           f"{float(row['exponent']):.2f}; {wins}"


def _latencies() -> Iterator[str]:
    """The latency of mixers over the length, where it was measured."""
    rows = _measured()
    if not rows:
        return
    first = max(rows.values(), key=lambda row: len(_lengths(row)))
    lengths = _lengths(first)
    yield from ("## Measured latency", "", f"Milliseconds of one mixer of width {first['width']} on one sequence, one "
                f"thread; `benchmarks/results/{LATENCIES.name}` has machine and command. The exponent is the slope of "
                "log time over log length at the long end.", "")
    shown = " | ".join(name.removeprefix("seconds_") for name in lengths)
    yield f"| kind | {shown} | exponent | faster than attention |"
    yield "|---|" + "---|" * (len(lengths) + 2)
    for kind, row in sorted(rows.items()):
        times = (f"{1e3 * float(row[name]):.3g}" if row[name] else "" for name in lengths)
        beats = f"from {int(float(row['beats_attention_from'])):,} tokens" if row["beats_attention_from"] else ""
        yield f"| {kind} | {' | '.join(times)} | {row['exponent']} | {beats} |"
    yield ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "." if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    (HERE / PICTURES).mkdir(exist_ok=True)
    files = pages()
    for old in (HERE / PICTURES).glob("*.svg"):
        if f"{PICTURES}/{old.name}" not in files:
            old.unlink()
    for name, text in files.items():
        (HERE / name).write_text(text, "utf-8")
