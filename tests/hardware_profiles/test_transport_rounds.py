"""Lines and rounds that cannot be true."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hardware_profiles.transports._rounds import check_rounds, parse_line
from search_spaces.errors import InputError


def rounds(times: dict[str, list[float]]) -> list[dict[str, Any]]:
    n = len(next(iter(times.values())))
    return [{"round": i, "spent_s": 1.0, "seconds": [[name, values[i]] for name, values in times.items()]}
            for i in range(n)]


@pytest.mark.parametrize("bad, says", [(-1.0, "is -1 s"), (0.0, "is 0 s"), (float("nan"), "is nan s"),
                                       (float("inf"), "is inf s")])
def test_a_time_is_a_finite_number_above_zero(bad: float, says: str) -> None:
    lines = rounds({"a": [1.0, 1.1], "b": [2.0, bad]})
    with pytest.raises(InputError, match=f"pi: the time of b in round 1 {says}; a time is a finite number above 0"):
        check_rounds(lines, "a", "pi")
    with pytest.raises(InputError, match=says):
        parse_line(json.dumps(lines[1]), "pi")


@pytest.mark.parametrize("times", [
    {"a": [0.001, 0.001], "b": [0.001, 0.001]},
    {name: [0.001 + 1e-7 * i, 0.001 + 2e-7 * i] for i, name in enumerate("abcde")},
])
def test_workloads_that_all_take_the_same_time(times: dict[str, list[float]]) -> None:
    with pytest.raises(InputError, match=f"pi: all {len(times)} workloads take 1 ms, although they differ"):
        check_rounds(rounds(times), "a", "pi")


@pytest.mark.parametrize("times", [
    {"a": [0.001, 0.001]}, {"a": [0.001, 0.001], "b": [0.001, 0.00100001]}, {"a": [0.001], "b": [0.001]},
    {name: [0.001 * (1 + i / 100)] * 3 for i, name in enumerate("abcde")},
])
def test_rounds_that_can_be_true(times: dict[str, list[float]]) -> None:
    check_rounds([{"versions": {}}, *rounds(times)], "a", "pi")


@pytest.mark.parametrize("text", [
    "hello", "[]", "1", "{}", '{"seconds": 1}', '{"seconds": [1], "round": 0, "spent_s": 1}', '{"seconds": [["a", 1]]}',
    '{"seconds": [["a", true]], "round": 0, "spent_s": 1}', '{"seconds": [["a", "1"]], "round": 0, "spent_s": 1}',
    '{"seconds": [[1, 1]], "round": 0, "spent_s": 1}', '{"seconds": [["a", 1]], "round": "0", "spent_s": 1}',
])
def test_a_line_that_is_none(text: str) -> None:
    with pytest.raises(InputError, match="^pi: printed .* where a line of timings was expected .*; run the runner"):
        parse_line(text, "pi")
