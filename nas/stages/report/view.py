"""Shows in a terminal where a report was written."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from nas.stages.report.run import ReportResult


def report_table(result: ReportResult) -> RenderableType:
    """The files of a report."""
    lines = [f"{result.page}: open it in a browser; it works offline"]
    if result.files:
        lines.append(f"{result.files[0].parent}: {len(result.files)} plots and tables")
    return Text("\n".join(lines), no_wrap=True, overflow="ignore")
