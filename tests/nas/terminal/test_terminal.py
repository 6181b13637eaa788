"""What others wrote cannot steer the terminal."""

import io

import pytest
from rich.table import Table
from rich.text import Text

from nas.cli._app import show_note, show_text
from nas.terminal.text import PlainConsole, printable
from tests.nas.runs import nas, refused

NASTY = "a\x1b[31mb\x07c\x9b2Jd\re\x7f\udc80"
SPELLED = r"a\x1b[31mb\x07c\x9b2Jd\re\x7f\udc80"


@pytest.mark.parametrize(("text", "shown"), [
    (NASTY, SPELLED), ("two\nlines\tand a tab", "two\nlines\tand a tab"), ("of Windows\r\n", "of Windows\r\n"),
    ("é 漢 🙂 \xa0", "é 漢 🙂 \xa0"), ("\x00\x0b\x0c", r"\x00\x0b\x0c"),
])
def test_control_characters_are_spelled_out(text, shown):
    assert printable(text) == shown


def test_a_console_escapes_what_it_shows_and_keeps_its_own_colours():
    file = io.StringIO()
    console = PlainConsole(file=file, force_terminal=True, color_system="standard", width=80, markup=False, emoji=False,
                           highlight=False)
    table = Table("name")
    table.add_row("x\x1b[2Jy")
    for shown in (table, Text("red \x1b]0;title\x07", style="red"), "[/b] :smile: \x1b[1m"):
        console.print(shown)
    said = file.getvalue()
    assert r"x\x1b[2Jy" in said and r"\x1b]0;title" in said and r"[/b] :smile: \x1b[1m" in said
    assert "\x1b[2J" not in said and "\x1b]0" not in said and "\x1b[31mred" in said


def test_texts_notes_and_errors_are_escaped(here, finished, capsys):
    show_text(NASTY)
    show_note(NASTY)
    out, err = capsys.readouterr()
    assert (out, err) == (SPELLED + "\n", SPELLED + "\n")
    assert r"no\x1b[31mwhere" in refused(capsys, "show", "no\x1b[31mwhere")
    finished()
    code, _, err = nas(capsys, "evaluate", "a", "--split", "mid\x1b[31mdle")
    with open("runs/a/log.txt", encoding="utf-8") as file:
        logged = file.read()
    assert code == 2 and "\x1b" not in err + logged and r"mid\x1b[31mdle" in err
    assert r"mid\x1b[31mdle" in logged
