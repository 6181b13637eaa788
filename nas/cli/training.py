"""`nas train`, `rank`, `evaluate` and `settings`: supernets."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from nas.cli import _complete
from nas.cli._app import SUPERNETS, Json, app, screen, show_result

RayAddress = Annotated[str, typer.Option(
    "--ray", metavar="auto|ADDRESS|local",
    help="The Ray cluster that several --workers run on: the one this machine belongs to, one by its address, or one "
         "on this machine for this command.")]


@app.command(rich_help_panel=SUPERNETS)
def train(
    space: Annotated[str | None, typer.Option(
        "--space", metavar="SPACE", autocompletion=_complete.spaces, show_default=False,
        help="A shipped space or a YAML file.")] = None,
    task: Annotated[str | None, typer.Option("--task", metavar="TASK", show_default=False,
                                             help="What to train for; an unknown name lists the tasks.")] = None,
    data: Annotated[list[str] | None, typer.Option(
        "--data", metavar="KEY=VALUE", show_default=False,
        help="Where the data are, such as train=FILE; several times. Without: data that come along.")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="NAME", show_default=False,
                                            help="The new run's name; its folder is runs/NAME.")] = None,
    settings: Annotated[list[str] | None, typer.Option(
        "--set", metavar="KEY=VALUE", show_default=False,
        help="A setting of the training, such as steps=2000; several times. nas settings lists them.")] = None,
    resume: Annotated[str | None, typer.Option(
        "--resume", metavar="NAME", autocompletion=_complete.runs, show_default=False,
        help="Go on with a run that was stopped.")] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1,
                                         help="Train data-parallel in so many processes on a Ray cluster.")] = 1,
    ray: RayAddress = "local",
) -> None:
    """Train the supernet of a space, or go on with it.

    Ctrl-C writes a checkpoint and stops.

    Example: [cyan]nas train --space lm-tiny --task lm --run first --set steps=300[/cyan]
    """
    from nas import train_command

    finished = train_command.train(space=space, task=task, data=data or [], run=run, settings=settings or [],
                                   resume=resume, workers=workers, address=ray, console=screen())
    if not finished:
        raise typer.Exit(130)


@app.command(rich_help_panel=SUPERNETS)
def rank(
    run: Annotated[str, typer.Argument(metavar="RUN", autocompletion=_complete.runs, show_default=False,
                                       help="A finished run of nas train.")],
    n: Annotated[int, typer.Option("-n", metavar="N", help="How many architectures are trained from scratch.")] = 20,
    steps: Annotated[int | None, typer.Option("--steps", metavar="N", min=1, show_default=False,
                                              help="Steps of each; as many as the supernet's by default.")] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1,
                                         help="Train so many at once on a Ray cluster.")] = 1,
    ray: RayAddress = "local", as_json: Json = False,
) -> None:
    """Report how well a supernet ranks architectures.

    N of them are trained from scratch, half of nearly equal MACs; what size and depth alone would tell stands beside
    it. Stopped, it goes on when called again.

    Example: [cyan]nas rank first -n 20 --steps 300[/cyan]
    """
    from nas import rank_command

    console = screen(as_json)
    report = rank_command.rank(run, n, steps, workers, ray, console)
    if report is None:
        raise typer.Exit(130)
    show_result(report.to_dict() if as_json else rank_command.report_table(report))


@app.command(rich_help_panel=SUPERNETS)
def evaluate(
    run: Annotated[str, typer.Argument(
        metavar="RUN_OR_SUBNET", autocompletion=_complete.runs_and_subnets, show_default=False,
        help="A finished run of nas train, or a subnet of nas extract.")],
    arch: Annotated[str | None, typer.Argument(
        metavar="[ARCH]", show_default=False,
        help="Of a run: an architecture's JSON file or folder; the smallest and the largest by default.")] = None,
    split: Annotated[str, typer.Option("--split", metavar="NAME", help="valid or test.")] = "valid",
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, show_default=False,
                                              help="A fair sample of so many examples only.")] = None,
    as_json: Json = False,
) -> None:
    """Judge architectures in a supernet, or a subnet, by its task.

    Every metric is taken.

    Example: [cyan]nas evaluate first --split test --limit 100[/cyan]
    """
    from nas import evaluate as stage
    from nas import tables

    with Console(stderr=True).status("evaluating ..."):
        found = stage.evaluate(run, arch, split, limit)
    show_result({"split": split, "limit": limit, "architectures": found} if as_json else tables.metrics_table(found))


@app.command("settings", rich_help_panel=SUPERNETS)
def settings_command(as_json: Json = False) -> None:
    """List the settings that nas train --set takes.

    Example: [cyan]nas settings[/cyan]
    """
    from nas import tables

    rows = tables.settings_data()
    show_result({"settings": rows} if as_json else tables.settings_table(rows))
