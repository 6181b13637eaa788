"""The progress bar of every command."""

import io

import pytest
from rich.console import Console
from rich.control import Control

from nas import bar


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = [0.0]
    monkeypatch.setattr(bar.time, "monotonic", lambda: now[0])
    return now


def work(shown, clock, seconds, steps=4):
    """Do so many steps, each of so many seconds."""
    with shown:
        task = shown.add_task("working", total=steps)
        for step in range(steps):
            clock[0] += seconds
            shown.update(task, completed=step + 1, figures=f"loss {step}")


def lines(clock, seconds, **console):
    out = io.StringIO()
    work(bar.WorkBar(Console(file=out, width=100, **console)), clock, seconds)
    return [line.split() for line in out.getvalue().splitlines()]


def test_a_file_gets_a_line_now_and_then_and_the_last(clock):
    found = lines(clock, bar.EVERY_S / 2)
    assert [(line[0], line[2], line[-2]) for line in found] == [("working", "2/4", "1"), ("working", "4/4", "3")]


def test_a_file_gets_no_line_of_work_that_is_soon_done(clock):
    assert len(lines(clock, 0.1)) == 1


def test_advancing_counts_as_well(clock):
    out = io.StringIO()
    shown = bar.WorkBar(Console(file=out, width=100))
    task = shown.add_task("working", total=3)
    for _ in range(2):
        clock[0] += bar.EVERY_S
        shown.advance(task)
    assert [line.split()[2] for line in out.getvalue().splitlines()] == ["1/3", "2/3"]


def test_a_terminal_has_its_bar_alone(clock, monkeypatch):
    printed = []
    shown = bar.WorkBar(Console(file=io.StringIO(), force_terminal=True, width=100))
    monkeypatch.setattr(shown.console, "print", lambda *what, **how: printed.append(what))
    work(shown, clock, 10 * bar.EVERY_S)
    assert [what for what in printed if what and not isinstance(what[0], Control)] == []


def test_a_line_is_of_what_is_not_done_yet_and_tells_the_time_left(clock):
    out = io.StringIO()
    shown = bar.WorkBar(Console(file=out, width=100))
    shown.get_time = lambda: clock[0]
    done, left = shown.add_task("first", total=1), shown.add_task("then", total=5)
    shown.advance(done)
    for _ in range(3):
        clock[0] += 100
        shown.advance(left)
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert [line[0] for line in lines] == ["then"] * 3
    assert lines[-1][-1] == "0:03:20"


def test_an_amount_of_seconds_is_not_counted():
    shown = bar.WorkBar(Console(quiet=True), counts=False)
    assert len(shown.columns) == len(bar.WorkBar(Console(quiet=True)).columns) - 1
