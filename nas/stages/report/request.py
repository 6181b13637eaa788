"""The request of the stage `report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from search_spaces import InputError
from search_spaces.errors import Option


@dataclass(frozen=True)
class ReportRequest:
    """Write the report of a run.

    Args:
        run: its name or folder.
        out: the page; `report.html` in the run's folder by default. Plots and tables go to a folder beside it, of
            the same name without the ending.
    """

    run: str
    out: Path | None = None

    def __post_init__(self) -> None:
        if self.out is not None and (not self.out.suffix or self.out.is_dir()):
            raise InputError(Option("out"), f"{self.out} is not a file name; allowed: a name such as report.html")
