"""Checks of a job's output: single lines, and all rounds together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hardware_profiles import protocol
from search_spaces.errors import InputError
from search_spaces.files.reading import parse_json, table

MANY, ALIKE = 4, 0.005
"""If this many different workloads lie within this relative range, they were not actually timed."""


def parse_line(text: str, device_name: str) -> dict[str, Any]:
    """One line of a job's output.

    Raises InputError if `measure.py` cannot have printed it, or its values are impossible.
    """
    try:
        line = table(parse_json(text, ""), "")
        _check_form(line)
    except (ValueError, TypeError) as error:
        answer = text.strip()[:80]
        raise InputError(device_name, f"printed {answer!r} where a line of timings was expected ({error}); run the "
                                      "runner manually to find the cause") from None
    check_line(line, device_name)
    return dict(line)


def parse_lines(lines: Iterable[str], device_name: str) -> Iterator[dict[str, Any]]:
    """The lines of a job's output, empty ones left out."""
    for text in lines:
        if text.strip():
            yield parse_line(text, device_name)


def check_stored(line: dict[str, Any], where: str, remedy: str) -> dict[str, Any]:
    """A stored line of an earlier measurement. Raises InputError if it is damaged."""
    try:
        _check_form(line)
        check_line(line, where)
    except (ValueError, TypeError) as error:
        reason = error.faults[0] if isinstance(error, InputError) else error
        raise InputError(where, f"is damaged ({reason})", remedy) from None
    return line


def _check_form(line: Mapping[str, Any]) -> None:
    if not isinstance(line.get("seconds"), list):
        if "seconds" in line or "round" in line or ("versions" not in line and "peak_bytes" not in line):
            raise ValueError("neither a header nor a round")
        if not all(isinstance(line.get(name, {}), dict) for name in ("versions", "machine")):
            raise ValueError("a header whose versions or machine is not a table")
        return
    for name, seconds in line["seconds"]:
        if not isinstance(name, str) or not _is_number(seconds):
            raise ValueError("a sample must be a name and a number")
    if not _is_number(line.get("spent_s")) or not isinstance(line.get("round"), int) or not line["seconds"]:
        raise ValueError("a round without its number or its duration")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_line(line: Mapping[str, Any], device_name: str) -> None:
    """Raises InputError if a round contains a time that is negative, zero or not a number."""
    if "seconds" in line and not (math.isfinite(line["spent_s"]) and line["spent_s"] >= 0):
        raise InputError(device_name, f"round {line['round']} took {line['spent_s']:g} s, which is impossible; "
                                      "check the device's clock")
    for name, seconds in line.get("seconds", ()):
        if not math.isfinite(seconds) or seconds <= 0:
            raise InputError(device_name, f"the time of {name} in round {line['round']} is {seconds:g} s; a time is a "
                                          "finite number above 0; run the runner manually to see its output")


def check_rounds(lines: Iterable[Mapping[str, Any]], reference: str, device_name: str) -> None:
    """Raises InputError if rounds contain impossible times, or the same time for every workload.

    Two or more workloads must not agree to the last digit in every sample, nor many within half a percent: then the
    clock is too coarse, or the runner did not run the given models.
    """
    rounds = [line for line in lines if "seconds" in line]
    for line in rounds:
        check_line(line, device_name)
        if not any(name == reference for name, _ in line["seconds"]):
            raise InputError(device_name, f"round {line['round']} has no time of the reference {reference}; delete the "
                                          "file; its rounds are measured again")
    ms = [timing.ms for timing in protocol.summarise(rounds, reference).values()]
    samples = {seconds for line in rounds for _, seconds in line["seconds"]}
    if len(ms) < 2:
        return
    if len(samples) == 1 and len(rounds) > 1 or len(ms) >= MANY and max(ms) - min(ms) <= ALIKE * min(ms):
        raise InputError(device_name, f"all {len(ms)} workloads take {min(ms):.4g} ms, although they differ; either "
                                      "the clock is too coarse or the runner does not run the given model; run it "
                                      "manually on two models")
