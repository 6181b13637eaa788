"""`nas report`: a page, pictures and tables of what is in a run's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from hardware_profiles.transports._base import safe_name
from nas.report import svg
from nas.report.collect import collect
from nas.report.document import document
from nas.report.page import page
from nas.report.picture import write_front
from nas.report.shown import Report, Searched
from nas.report.tables import tables
from nas.run_dir import RunDir, write_text
from nas.search.measures import Measure
from search_spaces import InputError


@dataclass(frozen=True)
class Written:
    """The files of a report."""

    run: str
    page: Path
    files: list[Path]

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {"run": self.run, "report": str(self.page), "files": [str(path) for path in self.files]}

    def table(self) -> RenderableType:
        """For a reader."""
        lines = [f"{self.page}: open it in a browser; it needs no network"]
        if self.files:
            lines.append(f"{self.files[0].parent}: {len(self.files)} pictures and tables")
        return Text("\n".join(lines), no_wrap=True, overflow="ignore")


def report(run: str, out: str | None = None) -> Written:
    """Write the report of a run; nothing is trained, evaluated or measured for it.

    Args:
        out: the page; pictures and tables go to a folder beside it, of the same name without the ending.

    Raises:
        InputError: there is no such run, a file of it is damaged, or the report cannot be written.
    """
    folder = RunDir.open(run)
    target = Path(out) if out else folder.path / "report.html"
    if not target.suffix or target.is_dir():
        raise InputError("--out", f"{target} is no file; allowed: a name such as report.html")
    found = collect(folder)
    text, beside = page(document(found)), target.with_suffix("")
    try:
        beside.mkdir(parents=True, exist_ok=True)
        if out is None:
            _tidy(beside)
        files = _write_files(found, beside)
        write_text(target, text)
    except OSError as error:
        raise InputError(str(error.filename or target), f"cannot be written ({error.strerror or error})") from None
    return Written(folder.name, target, files)


def _tidy(folder: Path) -> None:
    """Take away what an older report of the run left, which may show what is not there any more."""
    for path in folder.iterdir():
        if path.suffix in (".svg", ".png", ".csv"):
            path.unlink()


def _write_files(found: Report, folder: Path) -> list[Path]:
    written = []
    for name, text in tables(found).items():
        written.append(folder / f"{name}.csv")
        write_text(written[-1], text)
    if found.searched:
        quality = found.searched.shown[0]
        for name, cost in _drawn(found.searched).items():
            written += write_front(found.searched, quality, cost, folder / f"front-{name}")
    archs = found.architectures()
    for each in found.picked:
        written.append(folder / f"architecture-{each.name}.svg")
        write_text(written[-1], svg.standalone(svg.draw(each.arch, found.slots, svg.widest_of(archs))))
    return written


def _drawn(found: Searched) -> dict[str, Measure]:
    """The costs a front is drawn over, by what their files are called: every latency, or else the first cost."""
    quality, first = found.shown
    made: dict[str, Measure] = {}
    for cost in [each for each in found.costs if each.kind == "latency"] or [first]:
        name = safe_name(cost.name.removeprefix("latency:"))
        if found.fronts[quality.name, cost.name]:
            made[name if name not in made else f"{name}-{len(made)}"] = cost
    return made
