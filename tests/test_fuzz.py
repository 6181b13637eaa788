"""Damaged files are refused in a sentence: some hundred cases of `make fuzz`, drawn from a seed of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz import Fuzz, Summary, fuzzing


@pytest.fixture(scope="module")
def fuzz() -> Iterator[Fuzz]:
    with fuzzing(seed=1) as found:
        yield found


def test_every_command_works_on_files_that_are_whole(fuzz: Fuzz) -> None:
    assert fuzz.undamaged() == {}


@pytest.mark.parametrize("start", range(0, 250, 50))
def test_damaged_files_are_refused_in_a_sentence(fuzz: Fuzz, start: int) -> None:
    summary = Summary()
    for number in range(start, start + 50):
        fuzz.case(number, summary)
    assert summary.clean, "\n".join(summary.lines())
