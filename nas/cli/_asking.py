"""The questions of `nas init` on a terminal, and its preview of the data."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.prompt import Prompt

from nas.core.commands import command_line
from nas.terminal.tables import table
from search_spaces import InputError
from search_spaces.errors import Command

if TYPE_CHECKING:
    from nas.pipeline.init import Question
    from nas.tasks.guessing import Guess

CELL = 50
"""Characters of a cell that are shown."""


def is_terminal() -> bool:
    """Whether questions can be answered interactively."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


class Asking:
    """Asks on a terminal; uses every default if not interactive."""

    def __init__(self, console: Console, yes: bool) -> None:
        self.console, self.silent = console, yes or not is_terminal()

    def ask(self, question: Question) -> str:
        """An answer that passes the check. Raises InputError if a default does not, or input ends."""
        if self.silent:
            question.check(question.default)
            if question.guessed:
                others = ", ".join(name for name in question.allowed if name != question.default)
                self._print(f"{question.text} Assumed: {question.default}; to choose another ({others}), "
                            f"give {question.option}")
            return question.default
        if question.note:
            self._print(question.note)
        offered = f" [{', '.join(question.allowed)}]" if question.allowed else ""
        while True:
            try:
                answer = Prompt.ask(f"{question.text}{offered}".replace("[", "\\["), default=question.default,
                                    console=self.console)
                question.check(answer)
                return answer
            except EOFError:
                raise InputError(str(Command("init")), f"the input ended at the question {question.text!r}; give "
                                                   f"{question.option}, or --yes for the default answers") from None
            except InputError as error:
                self._print("; ".join(fault.message for fault in error.faults))

    def show(self, data: Guess) -> None:
        """The first rows and the options."""
        if data.description:
            self._print(f"{data.data.get('train', 'data')}: {data.description}"
                        + (f", {data.data['encoding']}" if "encoding" in data.data else ""))
        if data.rows:
            names = data.columns if len(data.columns) == len(data.rows[0]) else [""] * len(data.rows[0])
            result = table(*names)
            for row in data.rows:
                result.add_row(*(_cut(cell) for cell in row))
            self.console.print(result)
        for note in data.notes:
            self._print(note)

    def _print(self, text: str) -> None:
        self.console.print(command_line(text), markup=False, soft_wrap=True)


def _cut(cell: str) -> str:
    flat = " ".join(cell.split())
    return flat if len(flat) <= CELL else f"{flat[: CELL - 1]}\u2026"
