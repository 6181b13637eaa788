"""`nas init`, `run`, `watch` and `doctor`: all stages at once, how they go on, and what the machine can do."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nas.cli import _complete
from nas.cli._app import ALL, Json, app, screen, show_result

EVERY_S = 2.0


@app.command(rich_help_panel=ALL)
def init(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write.")] = "pipeline.yaml",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: a small run on the embedded text.")] = False,
) -> None:
    """Write a commented config for nas run.

    A few questions are asked.

    Example: [cyan]nas init --yes[/cyan]
    """
    from pathlib import Path

    from rich.prompt import Prompt

    from nas.pipeline.init import Question, write_config
    from search_spaces import InputError

    def ask(question: Question) -> str:
        choices = list(question.allowed) or None
        while True:
            answer = question.default if yes else Prompt.ask(question.text, choices=choices, default=question.default,
                                                             console=screen())
            try:
                question.check(answer)
                return answer
            except InputError as error:
                if yes:
                    raise
                screen().print("; ".join(fault.says for fault in error.faults), markup=False, soft_wrap=True)

    path = write_config(Path(file), ask)
    print(f"wrote {path}; look at the plan with: nas run {path} --dry-run; start it with: nas run {path}")


@app.command("run", rich_help_panel=ALL)
def run_command(
    config: Annotated[str, typer.Argument(metavar="CONFIG", show_default=False, help="A YAML file; nas init writes "
                                                                                     "one.")],
    first: Annotated[str | None, typer.Option(
        "--from", metavar="STAGE", show_default=False,
        help="Do this stage and what depends on it anew: prepare, profile, train, search, extract, retrain, plain, "
             "export, measure or report.")] = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Say what would be done and how long it may take.")] = False,
    as_json: Json = False,
) -> None:
    """Do everything that a config says; stopped, it goes on.

    That is: profile, train, search, extract, retrain, export, measure, report.

    Example: [cyan]nas run pipeline.yaml[/cyan]
    """
    from nas.pipeline.command import Plan, plan_table, run
    from nas.pipeline.stages import StoppedError

    console = screen(as_json)
    try:
        found = run(config, first, dry, console)
    except StoppedError:
        print(f"stopped; go on with: nas run {config}", file=sys.stderr)
        raise typer.Exit(130) from None
    if isinstance(found, Plan):
        show_result({"plan": found.rows()} if as_json else plan_table(found))
    else:
        show_result(found.to_dict() if as_json else found.table())
        console.print(f"report: {found.report}: open it in a browser; it needs no network", markup=False,
                      soft_wrap=True)


@app.command(rich_help_panel=ALL)
def watch(
    run: Annotated[str, typer.Argument(metavar="RUN", autocompletion=_complete.runs, show_default=False,
                                       help="A run, also one that goes on elsewhere in the same folder.")],
    once: Annotated[bool, typer.Option("--once", help="Print how it stands and stop.")] = False,
) -> None:
    """Look at a run while it trains or searches.

    Shows the progress, losses and the front as a plot. Ctrl-C stops looking.

    Example: [cyan]nas watch first[/cyan]
    """
    import time

    from rich.live import Live

    from nas.run_dir import RunDir
    from nas.watch import Watch

    look = Watch(RunDir.open(run))
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
    """Say what this machine can do, and what is missing.

    Looks for runtimes, devices, accelerators, Ray and extras.

    Example: [cyan]nas doctor[/cyan]
    """
    from nas import doctor as stage

    rows = stage.data()
    show_result({"findings": rows} if as_json else stage.doctor_table(rows))
