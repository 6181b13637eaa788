"""Whether our plain models reproduce published figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from nas.core.costs import count, unit_params
from search_spaces.architecture import Architecture
from search_spaces.errors import InputError
from search_spaces.published.catalogue import UNITS, PublishedNumber, load_published, numbers
from search_spaces.units import plan

PARTS = {
    "all": ("embedding", "mixer", "cross", "ffn", "between", "restore", "norm", "head"),
    "embedding": ("embedding", "head"),
    "non_embedding": ("mixer", "cross", "ffn", "between", "restore", "norm"),
    "attention": ("mixer", "cross"),
    "ffn": ("ffn",),
}
"""Counted part of a published figure -> the roles of its units."""


@dataclass(frozen=True)
class Row:
    """One published figure and ours.

    Args:
        ours: in the unit of the publication.
        deviation: ours relative to the published figure; 0.01 is one percent more.
        result: `pass` or `fail` for figures that must match, else `info`.
    """

    number: PublishedNumber
    ours: float
    deviation: float
    result: str


def check_published() -> list[Row]:
    """Every published figure with ours and the verdict, in the order of the table."""
    return [check_number(number) for number in numbers()]


def check_number(number: PublishedNumber) -> Row:
    """One published figure with ours and the verdict."""
    ours = measure(number) / UNITS[number.unit]
    deviation = ours / number.value - 1
    if not number.gates:
        return Row(number, ours, deviation, "info")
    met = abs(deviation) <= number.tolerance if number.tolerance else round(ours, _digits(number.value)) == number.value
    return Row(number, ours, deviation, "pass" if met else "fail")


def measure(number: PublishedNumber) -> float:
    """Our figure for a published one: parameters, multiply-adds, FLOPs, bytes, layers, a ratio or a difference."""
    first, *second = (_measured(load_published(name), number) for name in number.names)
    if number.is_difference:
        return (first - second[0]) / (first if number.unit == "%" else 1)
    return first / second[0] if second else first


def _measured(arch: Architecture, number: PublishedNumber) -> int:
    if number.metric == "params":
        return part_params(arch, number.part)
    if number.part != "all":
        raise InputError(f"{number.model} in published/counts.csv", f"part {number.part!r} is allowed with params only")
    if number.metric == "depth":
        return delight_depth(arch)
    if number.metric == "size":
        return 4 * part_params(arch, "all")
    macs = _macs(arch, number.seq_len, number.target_len or None, number.convention)
    return 2 * macs if number.metric == "flops" else macs


@lru_cache(maxsize=512)
def _macs(arch: Architecture, seq_len: int, target_len: int | None, convention: str) -> int:
    return count(arch, seq_len=seq_len, target_len=target_len, convention=convention).macs


def part_params(arch: Architecture, part: str = "all") -> int:
    """Parameters of a part of the model (see `PARTS`); shared and tied ones count once."""
    owners = {step.path: step.unit for step in plan(arch)}
    return sum(unit_params(unit) for unit in owners.values() if unit.role in PARTS[part])


def delight_depth(arch: Architecture) -> int:
    """Layers in sequence as DeLighT counts them: each block has its DExTra depth and 5 more, the embedding 3 more."""
    depths = [layer.mixer["depth"] for layers in arch.stacks.values() for layer in layers]
    return sum(int(depth) + 5 for depth in depths) + int(arch.embedding["depth"]) + 3


def _digits(value: float) -> int:
    """Printed digits after the point."""
    return len(repr(value).partition(".")[2].rstrip("0"))
