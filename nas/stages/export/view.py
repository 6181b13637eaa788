"""Shows an export in a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.table import Table

from nas.stages.export.run import Exported


def export_table(exported: Exported) -> RenderableType:
    """What was written, and how it compares with the plain model."""
    rows = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in exported.to_dict().items():
        rows.add_row(name.replace("_", " "), _shown(name, value))
    return rows


def _shown(name: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if name in ("not_delegated", "not_quantised"):
        return f"{100 * value:.2f} % of the work"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)
