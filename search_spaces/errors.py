"""Errors for users: what was wrong, where, and what is allowed."""

from __future__ import annotations

import difflib
import json
import re
import reprlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

MOST_SHOWN = 80
"""Characters of a value that an error shows."""
MOST_MESSAGE = 1500
"""Maximum length of a fault, in characters; lists of allowed values have hundreds."""


_ENDLESS = re.compile(r"\S{300,}")
"""Matches text that is neither a word nor a path."""


def shown(value: object) -> str:
    """A value for use in a message: its `repr`, at most 80 characters."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = MOST_SHOWN
    text = short.repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


_OPEN, _CLOSE = "\ue000", "\ue001"
"""Private-use characters around references in a message, so that the command line can replace them with flags."""
_REFERENCE = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")


class Option(str):
    """A field of a request, named in a sentence: `f"{Option('top')} needs a run"`.

    A Python program reads `top needs a run`; the command line shows `--top needs a run`.
    """

    def __str__(self) -> str:
        return f"{_OPEN}{json.dumps({'option': str.__str__(self)})}{_CLOSE}"

    def __format__(self, spec: str) -> str:
        return str(self)


class Setting(str):
    """A value of an option that takes several, named in a sentence: `f"give {Setting('data', 'encoding', 'latin-1')}"`.

    A Python program reads `data encoding=latin-1`, the command line shows `--data encoding=latin-1`, and an error
    about a YAML file `encoding: latin-1`.
    """

    def __new__(cls, option: str, key: str, value: object) -> Setting:
        """See str."""
        setting = super().__new__(cls, f"{option} {key}={value}")
        setting.parts = (option, key, str(value))
        return setting

    parts: tuple[str, str, str]

    def __str__(self) -> str:
        return f"{_OPEN}{json.dumps({'setting': self.parts})}{_CLOSE}"

    def __format__(self, spec: str) -> str:
        return str(self)


@dataclass(frozen=True, init=False)
class Command:
    """A stage to run, named in a sentence: `f"run {Command('profile', 'pi4', space='lm-tiny')}"`.

    A Python program reads `run profile('pi4', space='lm-tiny')`; the command line shows
    `run nas profile pi4 --space lm-tiny`. Options that are None or False are left out.
    """

    name: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def __init__(self, name: str, *arguments: Any, **options: Any) -> None:
        given = {key: value for key, value in options.items() if value is not None and value is not False}
        for key, value in (("name", name), ("arguments", arguments), ("options", given)):
            object.__setattr__(self, key, value)

    def __str__(self) -> str:
        arguments = [str.__str__(value) if isinstance(value, str) else str(value) for value in self.arguments]
        data = {"command": self.name, "arguments": arguments, "options": self.options}
        return f"{_OPEN}{json.dumps(data, default=str)}{_CLOSE}"

    def as_call(self) -> str:
        """As a Python program would write it."""
        options = (f"{key}={value!r}" for key, value in self.options.items())
        return f"{self.name}({', '.join((*map(repr, self.arguments), *options))})"


def with_references(text: str, option: Callable[[str], str] = lambda name: name,
                    command: Callable[[Command], str] = Command.as_call,
                    setting: Callable[[str, str, str], str] = lambda option, key, value: f"{option} {key}={value}",
                    ) -> str:
    """A text whose options, settings and commands are written out; by default for a Python program."""
    def written(match: re.Match[str]) -> str:
        data = json.loads(match[1])
        if "option" in data:
            return option(data["option"])
        if "setting" in data:
            return setting(*data["setting"])
        return command(Command(data["command"], *data["arguments"], **data["options"]))

    return _REFERENCE.sub(written, text)


@dataclass(frozen=True)
class Fault:
    """One fault.

    Args:
        key: its key path.
        reason: a sentence about it.
        remedy: what to do, where a caller may know better: the end of the sentence.
    """

    key: str
    reason: str
    remedy: str = ""

    @property
    def message(self) -> str:
        """The sentence with the remedy."""
        return f"{self.reason}; {self.remedy}" if self.remedy else self.reason

    def __str__(self) -> str:
        text = f"{cut(self.key, MOST_SHOWN)}: {self.message}" if self.key else self.message
        return cut(_ENDLESS.sub(lambda match: cut(match[0], MOST_SHOWN), text), MOST_MESSAGE)


def cut(text: str, most: int) -> str:
    """A text, or its beginning where it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


class InputError(ValueError):
    """All faults of one input.

    Args:
        where: the file or value that was read, named as the user knows it.
        faults: its faults; a plain string is one fault of the whole input.
        remedy: of that one fault.
    """

    exit_code = 2
    """The exit code of the command line."""

    def __init__(self, where: str, faults: str | Iterable[Fault], remedy: str = "") -> None:
        self.where = where
        self.faults = (Fault("", faults, remedy),) if isinstance(faults, str) else tuple(dict.fromkeys(faults))
        super().__init__(where, self.faults)

    def __str__(self) -> str:
        return with_references(self.marked)

    @property
    def marked(self) -> str:
        """The sentences with marks around options and commands; see `with_references`."""
        return "\n".join(f"{self.where}: {fault}" if self.where else str(fault) for fault in self.faults)


def did_you_mean(name: str, known: Iterable[str], n: int = 1, cutoff: float = 0.6) -> str:
    """A suffix for a message about an unknown name that suggests close known names; empty if there are none.

    Args:
        n: maximum number of names.
        cutoff: minimum similarity, from 0 to 1.
    """
    close = difflib.get_close_matches(name, list(known), n=n, cutoff=cutoff)
    return f"; did you mean {' or '.join(close)}?" if close else ""


class CheckFailedError(InputError):
    """The input was valid, but the result failed a check and is not written."""

    exit_code = 1
