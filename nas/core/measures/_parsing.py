"""Reads measures and limits as users write them: `latency:cpu`, `params=5M`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from nas.core.measures._base import MeasureKind
from nas.core.measures._registry import registry
from nas.core.measures._value import Limit, Measure
from search_spaces.errors import Fault, InputError, Option

OBJECTIVE = Option("objective")


def parse_measure(text: str, metrics: Mapping[str, bool], where: str = OBJECTIVE) -> Measure:
    """A measure by its name.

    Args:
        metrics: metrics of the task, and whether more is better.
        where: the option it was given in.

    Raises:
        InputError: there is no such measure; says what is allowed.
    """
    name, _, rest = text.partition(":")
    kind = registry().get(name)
    if kind is not None and kind.on_device and rest:
        device, _, phase = rest.rpartition(":")
        if device and phase in kind.phases:
            return Measure(name, device, phase, kind.maximise)
        return Measure(name, rest, maximise=kind.maximise)
    if kind is not None and not kind.on_device and not rest:
        return Measure(name, maximise=kind.maximise)
    if kind is None and not rest and name in metrics:
        return Measure(name, maximise=metrics[name])
    allowed = ", ".join((*metrics, *chain.from_iterable(map(_forms, registry().values()))))
    raise InputError(where, f"{text!r} is unknown; allowed: {allowed}")


def _forms(kind: MeasureKind) -> Iterator[str]:
    """How a measure can be written."""
    yield f"{kind.name}:DEVICE" if kind.on_device else kind.name
    yield from (f"{kind.name}:DEVICE:{phase}" for phase in kind.phases[1:])


def parse_limit(text: str, metrics: Mapping[str, bool], at_least: bool = False) -> Limit:
    """`MEASURE=VALUE` with a unit, such as `latency:cpu=12ms` or `params=5M`. Raises InputError."""
    option = Option("min" if at_least else "max")
    name, equals, value = text.rpartition("=")
    if not equals or not name:
        raise InputError(option, f"{text!r} must be MEASURE=VALUE, such as latency:cpu=12ms or params=5M")
    measure = parse_measure(name, metrics, option)
    try:
        return Limit(measure, measure.kind.parse(value), at_least)
    except ValueError as error:
        raise InputError(option, f"{value!r} is not a value of {measure.name}; allowed: {error}") from None


def parse_limits(most: Iterable[str], least: Iterable[str], metrics: Mapping[str, bool]) -> tuple[Limit, ...]:
    """The upper limits and the lower ones. Raises InputError."""
    return (*(parse_limit(text, metrics) for text in most),
            *(parse_limit(text, metrics, at_least=True) for text in least))


def parse_all(objectives: Iterable[str], metrics: Mapping[str, bool]) -> tuple[Measure, ...]:
    """The objectives of a search. Raises InputError with every wrong one, and where one is given twice."""
    measures: list[Measure] = []
    faults: list[Fault] = []
    for text in objectives:
        try:
            measure = parse_measure(text, metrics)
        except InputError as error:
            faults += error.faults
            continue
        if measure in measures:
            faults.append(Fault("", f"{text} is given twice"))
        measures.append(measure)
    if faults:
        raise InputError(OBJECTIVE, faults)
    return tuple(measures)
