"""Shows an export in a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nas.stages.export.run import Exported


def export_table(exported: Exported) -> RenderableType:
    """What was written, and how it compares with the plain model."""
    rows = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    known = exported.to_dict()
    usage = known.pop("usage", [])
    for name, value in known.items():
        rows.add_row(name.replace("_", " "), _shown(name, value))
    if not usage:
        return rows
    lines = Text("\n".join(usage), overflow="ignore", no_wrap=True)  # to paste: never wrapped
    return Group(rows, Text("\nTo use it in Python:\n"), lines)


def _shown(name: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if name in ("not_delegated", "not_quantised"):
        return f"{100 * value:.2f} % of the work"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)
