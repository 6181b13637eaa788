"""What a search can minimise, maximise or limit: named measures of an architecture, and values with units."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from hardware_profiles.profile import PHASES
from search_spaces import Fault, InputError

COUNTED = ("params", "macs", "weight_bytes")
"""Costs that no device has a say in."""
_ON_DEVICE = ("latency", "memory")
_TIME = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_COUNT = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
_BYTES = {"": 1.0, "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
_NUMBER = re.compile(r"([-+]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*([a-zµ]*)", re.IGNORECASE)


@dataclass(frozen=True)
class Measure:
    """One number of an architecture.

    Args:
        kind: a metric of the task, `latency`, `memory`, or one of `COUNTED`.
        device: the device a latency or memory is of.
        phase: of a latency.
        maximise: whether more is better.
    """

    kind: str
    device: str | None = None
    phase: str = "prefill"
    maximise: bool = False

    @property
    def name(self) -> str:
        """As the user writes it."""
        phase = "" if self.phase == "prefill" else f":{self.phase}"
        return self.kind if self.device is None else f"{self.kind}:{self.device}{phase}"

    @property
    def is_quality(self) -> bool:
        """Whether an evaluation has to tell; anything else is looked up."""
        return self.kind not in (*_ON_DEVICE, *COUNTED)

    def units(self) -> Mapping[str, float]:
        """The units its values can be written in."""
        if self.kind == "latency":
            return _TIME
        if self.kind in ("memory", "weight_bytes"):
            return _BYTES
        return {"": 1.0} if self.is_quality else _COUNT

    def show_bound(self, value: float, above: bool) -> str:
        """A value that is still reached when it is typed in as a limit: rounded up, or down where `above`."""
        scale = 1e3 if self.kind == "latency" or self.is_quality else 1.0
        whole = math.floor(value * scale) if above else math.ceil(value * scale)
        unit = {"latency": "ms", "memory": "B", "weight_bytes": "B"}.get(self.kind, "")
        return f"{whole / scale:,.3f}{unit}" if scale > 1 else f"{whole:,.0f}{unit}"

    def show(self, value: float) -> str:
        """A value for a reader."""
        if self.kind == "latency":
            return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.4g} s"
        if self.is_quality:
            return f"{value:.4f}"
        for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if value >= size:
                return f"{value / size:.4g} {sign}{'B' if self.units() is _BYTES else ''}".rstrip()
        return f"{value:.0f}{' B' if self.units() is _BYTES else ''}"


@dataclass(frozen=True)
class Limit:
    """A measure that has to stay at or below a value, or at or above it."""

    measure: Measure
    value: float
    at_least: bool = False

    def excess(self, value: float) -> float:
        """How far a value is beyond the limit, relative to it: it holds where this is at most 0."""
        over = (self.value - value) if self.at_least else (value - self.value)
        return over / abs(self.value) if self.value else over

    def holds(self, value: float) -> bool:
        """Whether a value is allowed."""
        return self.excess(value) <= 0

    def __str__(self) -> str:
        return f"{self.measure.name} {'>=' if self.at_least else '<='} {self.measure.show(self.value)}"


def parse_measure(text: str, metrics: Mapping[str, bool], where: str = "--objective") -> Measure:
    """A measure by its name.

    Args:
        metrics: what the task reports, and whether more of it is better.
        where: the option it was given in.

    Raises:
        InputError: there is no such measure; says what is allowed.
    """
    kind, _, rest = text.partition(":")
    if kind in _ON_DEVICE and rest:
        device, _, phase = rest.rpartition(":")
        if device and phase in PHASES and kind == "latency":
            return Measure(kind, device, phase)
        return Measure(kind, rest)
    if not rest and kind in COUNTED:
        return Measure(kind)
    if not rest and kind in metrics:
        return Measure(kind, maximise=metrics[kind])
    allowed = ", ".join((*metrics, "latency:DEVICE", "latency:DEVICE:decode", "memory:DEVICE", *COUNTED))
    raise InputError(where, f"{text!r} is unknown; allowed: {allowed}")


def parse_limit(text: str, metrics: Mapping[str, bool], at_least: bool = False) -> Limit:
    """`MEASURE=VALUE` with a unit, such as `latency:cpu=12ms` or `params=5M`. Raises InputError."""
    option = "--min" if at_least else "--max"
    name, equals, value = text.rpartition("=")
    if not equals or not name:
        raise InputError(option, f"{text!r} has to be MEASURE=VALUE, such as latency:cpu=12ms or params=5M")
    measure = parse_measure(name, metrics, option)
    return Limit(measure, parse_value(value, measure, option), at_least)


def parse_limits(most: Iterable[str], least: Iterable[str], metrics: Mapping[str, bool]) -> tuple[Limit, ...]:
    """The limits of `--max` and of `--min`. Raises InputError."""
    return (*(parse_limit(text, metrics) for text in most),
            *(parse_limit(text, metrics, at_least=True) for text in least))


def parse_value(text: str, measure: Measure, where: str) -> float:
    """A value of a measure: milliseconds, bytes, or a plain number. Raises InputError for a unit it does not have."""
    units = measure.units()
    found = _NUMBER.fullmatch(text.strip().replace("µ", "u"))
    unit = found[2].lower() if found else ""
    value = float(found[1].replace(",", "").replace("_", "")) * units[unit] if found and unit in units else math.nan
    if not math.isfinite(value) or value < 0:
        allowed = ", ".join(unit or "no unit" for unit in units)
        raise InputError(where, f"{text!r} is no value of {measure.name}; allowed: a number from 0 on with {allowed}")
    return value


def parse_all(objectives: Iterable[str], metrics: Mapping[str, bool]) -> tuple[Measure, ...]:
    """The objectives of a search. Raises InputError with every wrong one, and where one is given twice."""
    found: list[Measure] = []
    faults: list[Fault] = []
    for text in objectives:
        try:
            measure = parse_measure(text, metrics)
        except InputError as error:
            faults += error.faults
            continue
        if measure in found:
            faults.append(Fault("", f"{text} is given twice"))
        found.append(measure)
    if faults:
        raise InputError("--objective", faults)
    return tuple(found)


def devices_of(measures: Collection[Measure]) -> tuple[str, ...]:
    """The devices that measures name, in their order."""
    return tuple(dict.fromkeys(measure.device for measure in measures if measure.device is not None))
