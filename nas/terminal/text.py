"""Escapes untrusted text for terminals and logs.

Answers of devices, names and values of files, classes of a data set and generated text may contain control characters,
which could clear the screen, hide text or inject input.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]|\r(?!\n)")
"""Control characters except line breaks and tabs; also lone surrogates, which come from names that are not UTF-8."""


def printable(text: str) -> str:
    """The text with its control characters spelled out, as `\\x1b`."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


class PlainConsole(Console):
    """A console that escapes control characters in whatever it shows, and takes brackets and colons as they are.

    Lines that must not be wrapped, such as commands to copy, stay whole where the terminal is narrower. It raises
    BrokenPipeError if the reader is gone; Rich would exit.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        """See Console.print."""
        super().print(*objects, **{"crop": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See Console.render; moves of the cursor are Rich's own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)

    def render_str(self, text: str, **options: Any) -> Text:
        """See Console.render_str; escaped before anything is laid out, so that columns have room for it."""
        return super().render_str(printable(text), **options)

    def on_broken_pipe(self) -> None:
        """See Console.on_broken_pipe."""
        raise BrokenPipeError
