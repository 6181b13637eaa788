"""Converts references in messages to flags and commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from search_spaces.errors import Command, with_references


def command_line(text: str) -> str:
    """A text whose options are flags (`--max`) and whose stages are commands (`nas profile pi4`)."""
    return with_references(text, flag, shell_command, lambda option, key, value: f"{flag(option)} {key}={value}")


SHORT = {"training": "set"}
"""Flags whose names differ from the field of the request."""


def flag(name: str) -> str:
    """The flag of a request's field: `--max-loss-increase`, or `-n`."""
    name = SHORT.get(name, name)
    return f"-{name}" if len(name) == 1 else f"--{name.strip('_').replace('_', '-')}"


def shell_command(command: Command) -> str:
    """A command as a shell takes it."""
    return shlex.join(["nas", command.name, *map(str, command.arguments), *_words(command.options)])


def _words(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if value is True:
            yield flag(name)
        elif isinstance(value, Mapping):  # such as --set steps=100
            for key, one in value.items():
                yield from (flag(name), f"{key}={one}")
        else:
            for one in value if isinstance(value, (list, tuple)) else (value,):
                yield from (flag(name), str(one))
