"""Shows a written space in a terminal."""

from __future__ import annotations

from rich.text import Text

from nas.core.commands import shell_command
from nas.stages.space_from.run import SpaceFromResult
from search_spaces.errors import Command


def space_lines(result: SpaceFromResult) -> Text:
    """Where it is, how large, and what to do next."""
    path = str(result.path)
    train = Command("train", space=path, init=result.subnet, run="NAME", **result.needed)
    return Text(f"{path}: {result.space.size():,} architectures; the largest is the model\n"
                f"show it: {shell_command(Command('show', path))}\n"
                f"train it: {shell_command(train)}", no_wrap=True, overflow="ignore")
