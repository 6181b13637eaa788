"""Shows the results of `nas doctor` in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from nas.core.commands import command_line
from nas.stages.doctor.run import Finding
from nas.terminal.tables import table

STYLES = {"yes": "green", "no": "yellow", "": ""}


def doctor_data(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The findings for JSON output."""
    return [{**asdict(finding), "message": command_line(finding.message)} for finding in findings]


def doctor_table(findings: Sequence[Finding]) -> RenderableType:
    """A table of the findings, grouped."""
    rows, before = table("", "", "here", ""), ""
    for finding in findings:
        group = finding.group if finding.group != before else ""
        before = finding.group
        rows.add_row(Text(group, style="bold"), finding.what, Text(finding.available, style=STYLES[finding.available]),
                     Text(command_line(finding.message)))
    return rows
