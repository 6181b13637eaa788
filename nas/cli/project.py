"""`nas init`, `run`, `watch` and `doctor`: run all stages, watch progress, and check the machine."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer

from nas.cli import _complete
from nas.cli._app import ALL, Json, app, screen, show_note, show_result, show_text
from nas.core.commands import command_line
from search_spaces.errors import Command

EVERY_S = 2.0


@app.command(rich_help_panel=ALL)
def init(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write.")] = "pipeline.yaml",
    data: Annotated[list[str] | None, typer.Option(
        "--data", metavar="PATH|KEY=VALUE", show_default=False,
        help="Training data: a file, or a folder with train, valid and test; give it twice for two parallel files. "
             "Format, encoding and columns are detected; KEY=VALUE, as in nas train, overrides them.")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="NAME", show_default=False,
                                            help="Name of the run; default: first.")] = None,
    task: Annotated[str | None, typer.Option("--task", metavar="TASK", show_default=False,
                                             help="A task, such as lm; nas train --help lists them.")] = None,
    space: Annotated[str | None, typer.Option("--space", metavar="SPACE", autocompletion=_complete.spaces,
                                              show_default=False, help="A shipped space or a YAML file.")] = None,
    device: Annotated[str | None, typer.Option("--device", metavar="DEVICE", autocompletion=_complete.devices,
                                               show_default=False, help="A shipped device or a YAML file.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Use the default answer to every question. Implied where "
                                                          "standard input is not a terminal.")] = False,
) -> None:
    """Write a commented config for nas run.

    Inspects your data, shows how it will be read, and asks for what is ambiguous.

    Example: [cyan]nas init --data reviews.csv[/cyan]
    """
    from pathlib import Path

    from nas.cli._asking import Asking
    from nas.cli._settings import paths_and_settings
    from nas.pipeline.init import Given, write_config

    answers = {"run": run, "task": task, "space": space, "device": device}
    paths, options = paths_and_settings(data or [], "--data")
    given = Given(tuple(paths), options, {key: value for key, value in answers.items() if value is not None})
    asking = Asking(screen(), yes)
    path = write_config(Path(file), asking.ask, given, asking.show)
    show_text(command_line(f"wrote {path}; show the plan: {Command('run', str(path), dry_run=True)}; "
                           f"start: {Command('run', str(path))}"))


@app.command("run", rich_help_panel=ALL)
def run_command(
    config: Annotated[str, typer.Argument(metavar="CONFIG", show_default=False, help="A YAML file; nas init writes "
                                                                                     "one.")],
    first: Annotated[str | None, typer.Option(
        "--from", metavar="STAGE", show_default=False,
        help="Rerun this stage and all that depend on it: prepare, profile, train, search, extract, retrain, plain, "
             "export, measure or report.")] = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Read the data and print the plan with an estimated "
                                                       "duration of each stage; run nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Run all stages of a config; rerun to resume.

    Stages: profile, train, search, extract, retrain, export, measure, report.

    Example: [cyan]nas run pipeline.yaml[/cyan]
    """
    from nas.core.stopping import Stopped
    from nas.pipeline.run import PipelinePlan, run
    from nas.pipeline.view import TerminalPipeline, done_table, plan_data, plan_table

    console = screen(as_json)
    try:
        outcome = run(config, first, dry, TerminalPipeline(console))
    except Stopped:
        show_note(command_line(f"stopped; resume with: {Command('run', config)}"))
        raise typer.Exit(130) from None
    if isinstance(outcome, PipelinePlan):
        with console.status("estimating the time of each stage ...") if console.is_terminal else nullcontext():
            plan = plan_data(outcome) if as_json else plan_table(outcome)
        show_result(plan)
    else:
        show_result(outcome.to_dict() if as_json else done_table(outcome))
        console.print(f"report: {outcome.report}: open it in a browser; it works offline", markup=False,
                      soft_wrap=True)


@app.command(rich_help_panel=ALL)
def watch(
    run: Annotated[str, typer.Argument(metavar="RUN", autocompletion=_complete.runs, show_default=False,
                                       help="A run, finished or in progress.")],
    once: Annotated[bool, typer.Option("--once", help="Print the current state and exit.")] = False,
) -> None:
    """Watch a run while it trains or searches.

    Shows progress, losses and a plot of the front. Ctrl-C stops watching.

    Example: [cyan]nas watch first[/cyan]
    """
    import time

    from rich.live import Live

    from nas.stages.watch.request import WatchRequest
    from nas.stages.watch.view import Watch

    look = Watch(WatchRequest(run))
    console = screen()
    if once or not console.is_terminal:
        console.print(look())
        return
    with Live(look(), console=console, auto_refresh=False) as live:
        while not look.finished:
            time.sleep(EVERY_S)
            live.update(look(), refresh=True)


@app.command(rich_help_panel=ALL)
def doctor(as_json: Json = False) -> None:
    """Check what is installed and available on this machine.

    Lists runtimes, devices, accelerators, Ray and optional packages.

    Example: [cyan]nas doctor[/cyan]
    """
    from nas.core.progress import StageProgress
    from nas.stages.doctor.request import DoctorRequest
    from nas.stages.doctor.run import run
    from nas.stages.doctor.view import doctor_data, doctor_table

    findings = run(DoctorRequest(), StageProgress())
    show_result({"findings": doctor_data(findings)} if as_json else doctor_table(findings))
