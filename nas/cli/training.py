"""`nas train`, `rank`, `evaluate` and `settings`: supernets."""

from __future__ import annotations

from typing import Annotated

import typer

from nas.cli import _complete
from nas.cli._app import SUPERNETS, Json, app, screen, show_result
from nas.cli._declared import TrainCommand

RayAddress = Annotated[str, typer.Option(
    "--ray", metavar="auto|ADDRESS|local",
    help="Ray cluster for --workers: auto (the one this machine belongs to), an address, or local (started on this "
         "machine for this command).")]


@app.command(rich_help_panel=SUPERNETS, cls=TrainCommand)
def train(
    space: Annotated[str | None, typer.Option(
        "--space", metavar="SPACE", autocompletion=_complete.spaces, show_default=False,
        help="A shipped space or a YAML file.")] = None,
    task: Annotated[str | None, typer.Option("--task", metavar="TASK", show_default=False,
                                             help="Task to train for; default: that of --init.")] = None,
    data: Annotated[list[str] | None, typer.Option(
        "--data", metavar="KEY=VALUE", show_default=False,
        help="Data option, such as train=FILE; repeatable. Default: the data of --init, or the bundled sample "
             "data.")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="NAME", show_default=False,
                                            help="The new run's name; its folder is runs/NAME.")] = None,
    settings: Annotated[list[str] | None, typer.Option(
        "--set", metavar="KEY=VALUE", show_default=False,
        help="Training setting, such as steps=2000; repeatable. nas settings lists them.")] = None,
    init: Annotated[str | None, typer.Option(
        "--init", metavar="SUBNET_OR_RUN", autocompletion=_complete.runs_and_subnets, show_default=False,
        help="Start from a trained model: a subnet, or a run's largest architecture. Its weights, ordered by "
             "importance, initialise the supernet, and it teaches every architecture.")] = None,
    resume: Annotated[str | None, typer.Option(
        "--resume", metavar="NAME", autocompletion=_complete.runs, show_default=False,
        help="Resume a run.")] = None,
    check: Annotated[bool, typer.Option(
        "--check/--no-check", help="At the end, report rarely trained tensors, and how much single architectures "
                                   "improve in a few more steps.")] = True,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1,
                                         help="Number of data-parallel processes on a Ray cluster.")] = 1,
    ray: RayAddress = "local",
) -> None:
    """Train the supernet of a space, or resume training.

    Ctrl-C saves a checkpoint and stops.

    Example: [cyan]nas train --space lm-tiny --task lm --run first --set steps=300[/cyan]
    """
    from nas.cli._settings import parse_settings
    from nas.stages.train.request import TrainRequest
    from nas.stages.train.run import run as stage
    from nas.stages.train.view import summary
    from nas.terminal.progress import TerminalProgress

    request = TrainRequest(space=space, task=task, run=run, data=parse_settings(data or [], "--data"),
                           training=parse_settings(settings or [], "--set"), init=init, resume=resume, check=check,
                           workers=workers, ray=ray)
    with TerminalProgress(screen()) as progress:
        for line in summary(stage(request, progress)):
            progress.note(line)


@app.command(rich_help_panel=SUPERNETS)
def rank(
    run: Annotated[str, typer.Argument(metavar="RUN", autocompletion=_complete.runs, show_default=False,
                                       help="A finished run of nas train.")],
    n: Annotated[int, typer.Option("-n", metavar="N", help="Number of architectures to train from scratch.")] = 20,
    steps: Annotated[int | None, typer.Option("--steps", metavar="N", min=1, show_default=False,
                                              help="Steps per architecture; default: those of the supernet.")] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1,
                                         help="Number of parallel training runs on a Ray cluster.")] = 1,
    ray: RayAddress = "local", as_json: Json = False,
) -> None:
    """Report how well a supernet ranks architectures.

    Trains N architectures from scratch, half of them with nearly equal MACs, and compares the ranking by inherited
    loss with rankings by size and depth. Rerun to resume.

    Example: [cyan]nas rank first -n 20 --steps 300[/cyan]
    """
    from nas.stages.rank.request import RankRequest
    from nas.stages.rank.run import run as stage
    from nas.stages.rank.view import report_table
    from nas.terminal.progress import TerminalProgress

    with TerminalProgress(screen(as_json)) as progress:
        report = stage(RankRequest(run, n, steps, workers, ray), progress)
    show_result(report.to_dict() if as_json else report_table(report))


@app.command(rich_help_panel=SUPERNETS)
def evaluate(
    run: Annotated[str, typer.Argument(
        metavar="RUN_OR_SUBNET", autocompletion=_complete.runs_and_subnets, show_default=False,
        help="A finished run of nas train, or a subnet of nas extract.")],
    arch: Annotated[str | None, typer.Argument(
        metavar="[ARCH]", show_default=False,
        help="For a run: an architecture's JSON file or folder; default: the smallest and the largest.")] = None,
    split: Annotated[str, typer.Option("--split", metavar="NAME", help="valid or test.")] = "valid",
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, show_default=False,
                                              help="Evaluate on a random sample of N examples.")] = None,
    as_json: Json = False,
) -> None:
    """Evaluate architectures of a supernet, or a subnet.

    Prints every metric of the task.

    Example: [cyan]nas evaluate first --split test --limit 100[/cyan]
    """
    from nas.core.progress import StageProgress
    from nas.stages.evaluate import run as stage
    from nas.stages.evaluate.request import EvaluateRequest
    from nas.stages.evaluate.view import metrics_table

    with screen(as_json=True).status("evaluating ..."):
        metrics = stage.run(EvaluateRequest(run, arch, split, limit), StageProgress())
    show_result({"split": split, "limit": limit, "architectures": metrics} if as_json else metrics_table(metrics))


@app.command("settings", rich_help_panel=SUPERNETS)
def settings_command(as_json: Json = False) -> None:
    """List the training settings (nas train --set).

    Example: [cyan]nas settings[/cyan]
    """
    from nas.terminal import tables

    rows = tables.settings_data()
    show_result({"settings": rows} if as_json else tables.settings_table(rows))
