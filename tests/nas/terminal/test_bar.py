"""The progress bar of every command."""

import io

import pytest
from rich.console import Console
from rich.control import Control

from nas.terminal import bar


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = [0.0]
    monkeypatch.setattr(bar, "monotonic", lambda: now[0])
    return now


def console(width=100, terminal=False):
    return Console(file=io.StringIO(), width=width, force_terminal=terminal)


def work(shown, clock, seconds, steps=4, figures="loss"):
    """Do so many steps, each of so many seconds."""
    with shown.progress:
        task = shown.add("working", steps)
        shown.progress.get_time = lambda: clock[0]
        for step in range(steps):
            clock[0] += seconds
            task.say(f"{figures} {step}")
            task.move_to(step + 1)


def lines(to):
    return [line.split() for line in to.file.getvalue().splitlines()]


def test_a_file_gets_a_line_now_and_then_and_the_last(clock):
    work(bar.WorkBar(to := console()), clock, bar.EVERY_S / 2)
    assert [line[:4] for line in lines(to)] == [["working", "2/4", "loss", "1"], ["working", "4/4", "loss", "3"]]


def test_a_file_gets_no_line_of_work_that_is_soon_done(clock):
    work(bar.WorkBar(to := console()), clock, 0.1)
    assert len(lines(to)) == 1


def test_a_line_has_room_for_what_a_training_says(clock):
    says = "loss 5.771 (largest) / 5.902 (smallest), valid 5.361, 12,345 tokens/s"
    work(bar.WorkBar(to := console(width=160)), clock, bar.EVERY_S, figures=says)
    assert all("tokens/s" in line and ":" in line[-1] and "/4" in line[1] for line in lines(to))


def test_a_line_is_of_what_is_not_done_yet_and_tells_the_time_left(clock):
    shown = bar.WorkBar(to := console())
    shown.progress.get_time = lambda: clock[0]
    done, left = shown.add("first", 1), shown.add("then", 5)
    done.move()
    for _ in range(3):
        clock[0] += 100
        left.move()
    assert [line[0] for line in lines(to)] == ["then"] * 3
    assert lines(to)[-1][-1] == "0:03:20"


def test_a_terminal_has_its_bar_alone(clock, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    printed = []
    shown = bar.WorkBar(to := console(terminal=True))
    monkeypatch.setattr(to, "print", lambda *what, **how: printed.append(what))
    work(shown, clock, 10 * bar.EVERY_S)
    assert [what for what in printed if what and not isinstance(what[0], Control)] == []


def test_an_amount_of_seconds_is_not_counted():
    shown = bar.WorkBar(console(), counts=False)
    assert len(shown.progress.columns) == len(bar.WorkBar(console()).progress.columns) - 1


def test_what_is_finished_early_is_whole(clock):
    shown = bar.WorkBar(console())
    shown.add("working", 7).finish()
    assert shown.progress.tasks[0].finished


@pytest.mark.parametrize("width", [80, 100, 160])
def test_nothing_is_cut_off_in_a_narrow_terminal(width):
    figures = "loss 6.103 (largest) / 6.222 (smallest) / 6.000 (random), valid 6.024, 12,345 tokens/s"
    to = console(width)
    shown = bar.WorkBar(console(width, terminal=True))
    shown.add("retraining 0c96818520c5-retrained", 10_000, 4_321).say(figures)
    to.print(shown.progress.make_tasks_table(shown.progress.tasks))
    said = " ".join(to.file.getvalue().split())
    assert figures in said and "retraining 0c96818520c5-retrained" in said and "4321/10000" in said
    assert max(map(len, to.file.getvalue().splitlines())) <= width
