"""The stage `report`: a page, plots and tables of what is in a run's folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nas.core.measures import Measure
from nas.core.progress import StageProgress
from nas.core.run_dir import RunDir, write_text
from nas.stages.report import svg
from nas.stages.report.collect import collect
from nas.stages.report.document import document
from nas.stages.report.page import page
from nas.stages.report.picture import write_front
from nas.stages.report.request import ReportRequest
from nas.stages.report.shown import RunReport, Searched
from nas.stages.report.tables import tables
from search_spaces import InputError


@dataclass(frozen=True)
class ReportResult:
    """The files of a report."""

    run: str
    page: Path
    files: list[Path]

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON output."""
        return {"run": self.run, "report": str(self.page), "files": [str(path) for path in self.files]}


def run(request: ReportRequest, progress: StageProgress) -> ReportResult:
    """Write the report of a run; nothing is trained, evaluated or measured for it.

    Raises:
        InputError: there is no such run, a file of it is damaged, or the report cannot be written.
    """
    folder = RunDir.open(request.run)
    target = request.out or folder.path / "report.html"
    shown = collect(folder)
    text, beside = page(document(shown)), target.with_suffix("")
    try:
        beside.mkdir(parents=True, exist_ok=True)
        for path in beside.iterdir() if request.out is None else ():
            if path.suffix in (".svg", ".png", ".csv"):  # an older report may show what no longer exists
                path.unlink()
        files = _write_files(shown, beside)
        write_text(target, text)
    except OSError as error:
        raise InputError(str(error.filename or target), f"cannot be written ({error.strerror or error})") from None
    return ReportResult(folder.name, target, files)


def _write_files(shown: RunReport, folder: Path) -> list[Path]:
    written = []
    for name, text in tables(shown).items():
        written.append(folder / f"{name}.csv")
        write_text(written[-1], text)
    if shown.searched:
        quality = shown.searched.shown[0]
        for name, cost in _drawn(shown.searched).items():
            written += write_front(shown.searched, quality, cost, folder / f"front-{name}")
    archs = shown.architectures()
    for subnet in shown.picked:
        written.append(folder / f"architecture-{subnet.name}.svg")
        write_text(written[-1], svg.standalone(svg.draw(subnet.arch, shown.slots, svg.widest_of(archs))))
    return written


def _drawn(searched: Searched) -> dict[str, Measure]:
    """The costs to plot, by file name: latencies and objectives, or else the first cost."""
    quality, first = searched.shown
    drawn: dict[str, Measure] = {}
    plotted = [cost for cost in searched.costs if cost.kind.phases or cost in searched.objectives]
    for cost in plotted or [first]:
        device = cost.name.removeprefix(f"{cost.base_name}:")
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", device).strip(".-")[:80] or cost.base_name
        if searched.fronts[quality.name, cost.name]:
            drawn[name if name not in drawn else f"{name}-{len(drawn)}"] = cost
    return drawn
