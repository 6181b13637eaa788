"""Tables in terminals of any width."""

import io

import pytest
from rich.console import Console

from nas.terminal.plain_table import FirstThatFits, ForWidth, PlainTable

NAMES = ("afternoon-run/0c96818520c5-retrained", "raspberry-pi-5-estimated")
WORDS = "some words that tell what this is and why it cannot be used here"


def printed(what, width):
    to = Console(file=io.StringIO(), width=width)
    to.print(what)
    return to.file.getvalue().splitlines()


def made(minor=()):
    table = PlainTable("subnet", "device", "what it is", "interval", "gap", right=("interval", "gap"),
                       keep=("subnet", "device"), minor=minor)
    table.add_row(*NAMES, WORDS, "1.465 to 5.880", "+7.9 %")
    return table


@pytest.mark.parametrize("width", range(90, 170, 8))
def test_names_and_words_are_never_broken(width):
    lines = printed(made(), width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert set(words) >= {*NAMES, *WORDS.split(), "1.465", "5.880", "+7.9"}
    assert all(name in lines[1] or name in " ".join(lines) for name in NAMES)


def test_columns_that_matter_least_go_first():
    table = made(minor=("what it is", "interval"))
    heads = {}
    for width in (160, 78, 74):
        words = (lines := printed(table, width)) and " ".join(lines).split()
        assert max(map(len, lines)) <= width and set(words) >= {*NAMES, "+7.9"}
        heads[width] = [name for name in ("what", "interval", "gap") if name in words]
    assert heads == {160: ["what", "interval", "gap"], 78: ["what", "gap"], 74: ["gap"]}


def test_one_of_several_is_printed_by_the_width():
    assert printed(FirstThatFits("a longer text", "short"), 40) == ["a longer text"]
    assert printed(FirstThatFits("a longer text", "short"), 10) == ["short"]
    assert printed(ForWidth(30, "wide", "narrow"), 30) == ["wide"]
    assert printed(ForWidth(30, "wide", "narrow"), 29) == ["narrow"]
