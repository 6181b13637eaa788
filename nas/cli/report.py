"""`nas report`: the results of a run as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nas.cli import _complete
from nas.cli._app import ALL, Json, app, show_result


@app.command(rich_help_panel=ALL)
def report(
    run: Annotated[str, typer.Argument(metavar="RUN", autocompletion=_complete.runs, show_default=False,
                                       help="A run, finished or not.")],
    out: Annotated[str | None, typer.Option(
        "--out", metavar="FILE", show_default=False,
        help="HTML file to write; default: report.html in the run's folder. Plots and tables are written to a folder "
             "of the same name beside it.")] = None,
    as_json: Json = False,
) -> None:
    """Write an HTML report of a run: fronts, models and curves.

    It works offline. Plots of the fronts and tables of all data are written beside it. Nothing is trained or measured.

    Example: [cyan]nas report first[/cyan]
    """
    from nas.core.progress import StageProgress
    from nas.stages.report.request import ReportRequest
    from nas.stages.report.run import run as write_report
    from nas.stages.report.view import report_table

    result = write_report(ReportRequest(run, None if out is None else Path(out)), StageProgress())
    show_result(result.to_dict() if as_json else report_table(result))
