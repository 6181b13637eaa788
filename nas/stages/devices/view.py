"""Shows devices in a terminal, and whether each is available here."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nas.core.commands import shell_command
from nas.terminal.plain_table import ForWidth
from nas.terminal.tables import ROOMY, table
from search_spaces.errors import Command

STYLES = {"measured": "green", "available": "green", "reached": "green", "estimated": "green", "not checked": "yellow",
          "not available": "yellow", "not reached": "red"}
NOT_CHECKED = ("not checked: these devices were not contacted; "
               f"{shell_command(Command('devices', check=True))} contacts them")


def devices_table(rows: list[dict[str, Any]]) -> RenderableType:
    """The devices for a terminal; a narrow one omits columns and prints reasons below."""
    wide = table("device", "kind", "runtime", "precision", "by", "here", "description", keep=("device", "runtime"))
    narrow = table("device", "runtime", "precision", "by", "here", keep=("device", "runtime"))
    for row in rows:
        here = Text(row["state"], style=STYLES[row["state"]])
        why = Text(f"{row['state']}: {row['why_not']}" if row["why_not"] else row["state"], style=STYLES[row["state"]])
        wide.add_row(row["name"], row["kind"], row["runtime"], row["precision"], row["transport"], why,
                     row["description"])
        narrow.add_row(row["name"], row["runtime"], row["precision"], row["transport"], here)
    reasons = [Text(f"{row['name']}: {row['why_not']}", style="yellow") for row in rows if row["why_not"]]
    notes = [Text(NOT_CHECKED)] if any(row["state"] == "not checked" for row in rows) else []
    return ForWidth(ROOMY, Group(wide, *notes), Group(narrow, *reasons, *notes))
