"""`nas search` and `pareto`: architectures that nothing beats."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nas.cli import _complete
from nas.cli._app import SUPERNETS, Json, app, screen, show_result


@app.command(rich_help_panel=SUPERNETS)
def search(
    run: Annotated[str, typer.Argument(metavar="RUN", autocompletion=_complete.runs, show_default=False,
                                       help="A finished run of nas train.")],
    objectives: Annotated[list[str] | None, typer.Option(
        "--objective", metavar="MEASURE", show_default=False,
        help="loss or another metric of the task, latency:DEVICE, latency:DEVICE:decode, memory:DEVICE, params, macs, "
             "weight_bytes; several times. Usually the loss and the latency on every --device.")] = None,
    devices: Annotated[list[str] | None, typer.Option(
        "--device", metavar="DEVICE", autocompletion=_complete.devices, show_default=False,
        help="A profiled device, or a profile's folder; several times. Each gets a front of its own.")] = None,
    most: Annotated[list[str] | None, typer.Option(
        "--max", metavar="MEASURE=VALUE", show_default=False,
        help="A limit, such as latency:cpu=12ms or params=5M; several times.")] = None,
    least: Annotated[list[str] | None, typer.Option(
        "--min", metavar="MEASURE=VALUE", show_default=False, help="A limit from below; several times.")] = None,
    trials: Annotated[int | None, typer.Option("--trials", metavar="N", min=1, show_default=False,
                                               help="Architectures to evaluate; 200 by default.")] = None,
    more: Annotated[int | None, typer.Option("--more", metavar="N", min=1, show_default=False,
                                             help="Go on with a search for so many more.")] = None,
    sampler: Annotated[str | None, typer.Option(
        "--sampler", metavar="NAME", show_default=False,
        help="Who proposes; predictor by default, an unknown name lists them.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", min=0, show_default=False,
                                             help="The same seed visits the same architectures; 0 by default.")] = None,
    limit: Annotated[int | None, typer.Option(
        "--limit", metavar="N", min=1, show_default=False,
        help="Validation examples that each is evaluated on; 256 by default.")] = None,
    batch_size: Annotated[int | None, typer.Option(
        "--batch-size", metavar="N", min=1, show_default=False,
        help="Examples evaluated at a time; a fast number by default.")] = None,
    race: Annotated[bool | None, typer.Option(
        "--race/--no-race", show_default=False,
        help="Whether the evaluation of what is clearly dominated ends early; it does by default.")] = None,
    warm_start: Annotated[list[str] | None, typer.Option(
        "--warm-start", metavar="RUN|ARCH|published", show_default=False,
        help="Architectures to begin with: another run's front, one by name or file, or all published ones that lie in "
             "the space; several times.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Put an older search aside and start anew.")] = False,
    ray: Annotated[str | None, typer.Option(
        "--ray", metavar="auto|ADDRESS|local", show_default=False,
        help="Search on a Ray cluster: the one this machine belongs to, one by its address, or one on this machine for "
             "this command. Without: in this process.")] = None,
    concurrency: Annotated[int | None, typer.Option(
        "--concurrency", metavar="N", min=1, show_default=False,
        help="Evaluations at once on the cluster; as many as it has room for by default.")] = None,
    cpus_per_trial: Annotated[float, typer.Option("--cpus-per-trial", metavar="X", min=0.01,
                                                  help="CPUs an evaluation takes on the cluster.")] = 1.0,
    gpus_per_trial: Annotated[float, typer.Option("--gpus-per-trial", metavar="X", min=0.0,
                                                  help="GPUs an evaluation takes on the cluster.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Search a supernet for architectures that nothing beats.

    Ctrl-C stops; called again, it goes on.

    Example: [cyan]nas search first --device cpu --max latency:cpu=12ms --trials 200[/cyan]
    """
    from nas import search_command
    from search_spaces import InputError

    if ray is None and (concurrency is not None or cpus_per_trial != 1.0 or gpus_per_trial):
        raise InputError("--concurrency, --cpus-per-trial, --gpus-per-trial", "are for a cluster; add --ray")
    if trials is not None and more is not None:
        raise InputError("--more", "goes on for so many trials; give it or --trials")
    given = {"objectives": objectives, "devices": devices, "max": most, "min": least, "trials": trials, "seed": seed,
             "sampler": sampler, "limit": limit, "batch_size": batch_size, "race": race, "warm_start": warm_start}
    console = screen(as_json)
    found = search_command.search(run, {name: value for name, value in given.items() if value is not None}, more, fresh,
                                  search_command.Cluster(ray, concurrency, cpus_per_trial, gpus_per_trial), console)
    if not found.finished:
        print(f"stopped after {found.search.done:,} trials; go on with: nas search {run}", file=sys.stderr)
        raise typer.Exit(130)
    show_result(found.to_dict() if as_json else found.table())


@app.command(rich_help_panel=SUPERNETS)
def pareto(
    run: Annotated[str, typer.Argument(metavar="RUN", autocompletion=_complete.runs, show_default=False,
                                       help="A run that was searched.")],
    device: Annotated[str | None, typer.Option(
        "--device", metavar="DEVICE", autocompletion=_complete.devices, show_default=False,
        help="Its front only. A device the search did not know is priced now: nothing is evaluated again.")] = None,
    as_json: Json = False,
) -> None:
    """Show the architectures that nothing beats, per device.

    Example: [cyan]nas pareto first --device cpu --json[/cyan]
    """
    from nas import search_command

    show_result(search_command.pareto_of(run, device, as_json))
