"""`nas search` and `pareto`: Pareto-optimal architectures."""

from __future__ import annotations

from typing import Annotated

import typer

from nas.cli import _complete
from nas.cli._app import SUPERNETS, Json, app, screen, show_result
from nas.cli._declared import SearchCommand


@app.command(rich_help_panel=SUPERNETS, cls=SearchCommand)
def search(
    run: Annotated[str, typer.Argument(metavar="RUN", autocompletion=_complete.runs, show_default=False,
                                       help="A finished run of nas train.")],
    objectives: Annotated[list[str] | None, typer.Option(
        "--objective", metavar="MEASURE", show_default=False,
        help="A metric of the task, such as loss, or a cost, such as latency:DEVICE, latency:DEVICE:decode, "
             "params, macs, weight_bytes or memory:DEVICE; repeatable. Default: loss and the latency on every "
             "--device, or loss "
             "and params without one.")] = None,
    devices: Annotated[list[str] | None, typer.Option(
        "--device", metavar="DEVICE", autocompletion=_complete.devices, show_default=False,
        help="Profiled device, or the folder of a profile; repeatable. Each device gets its own front.")] = None,
    most: Annotated[list[str] | None, typer.Option(
        "--max", metavar="MEASURE=VALUE", show_default=False,
        help="Upper limit, such as latency:cpu=12ms or params=5M; repeatable.")] = None,
    least: Annotated[list[str] | None, typer.Option(
        "--min", metavar="MEASURE=VALUE", show_default=False, help="Lower limit; repeatable.")] = None,
    trials: Annotated[int | None, typer.Option("--trials", metavar="N", min=1, show_default=False,
                                               help="Number of architectures to evaluate; default 200.")] = None,
    more: Annotated[int | None, typer.Option("--more", metavar="N", min=1, show_default=False,
                                             help="Resume the search for N more trials.")] = None,
    sampler: Annotated[str | None, typer.Option(
        "--sampler", metavar="NAME", show_default=False,
        help="Sampling algorithm.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", min=0, show_default=False,
                                             help="Random seed; default 0.")] = None,
    limit: Annotated[int | None, typer.Option(
        "--limit", metavar="N", min=1, show_default=False,
        help="Validation examples per evaluation; default 256.")] = None,
    batch_size: Annotated[int | None, typer.Option(
        "--batch-size", metavar="N", min=1, show_default=False,
        help="Batch size of evaluations; default: chosen for speed.")] = None,
    race: Annotated[bool | None, typer.Option(
        "--race/--no-race", show_default=False,
        help="Stop evaluating clearly dominated architectures early; on by default.")] = None,
    warm_start: Annotated[list[str] | None, typer.Option(
        "--warm-start", metavar="RUN|ARCH|published|pruned", show_default=False,
        help="Architectures to start with: the front of another run, an architecture's name or file, all published "
             "ones in the space, or pruned: smaller versions of the largest one, like those of nas prune-to (the "
             "default for runs that start from a trained model); repeatable.")] = None,
    calibrate: Annotated[str | None, typer.Option(
        "--calibrate", metavar="RUN", autocompletion=_complete.runs, show_default=False,
        help="Correct inherited losses with the architectures that nas rank trained from scratch in RUN, usually the "
             "same run.")
        ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Archive an earlier search and start a new one.")] = False,
    ray: Annotated[str | None, typer.Option(
        "--ray", metavar="auto|ADDRESS|local", show_default=False,
        help="Search on a Ray cluster: auto (the one this machine belongs to), an address, or local (started on this "
             "machine). Default: in this process.")] = None,
    concurrency: Annotated[int | None, typer.Option(
        "--concurrency", metavar="N", min=1, show_default=False,
        help="Parallel evaluations on the cluster; default: as many as fit.")] = None,
    cpus_per_trial: Annotated[float, typer.Option("--cpus-per-trial", metavar="X",
                                                  help="CPUs per evaluation on the cluster.")] = 1.0,
    gpus_per_trial: Annotated[float, typer.Option("--gpus-per-trial", metavar="X",
                                                  help="GPUs per evaluation on the cluster.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Search a supernet for Pareto-optimal architectures.

    Ctrl-C stops it; rerun to resume.

    Example: [cyan]nas search first --device cpu --max latency:cpu=12ms --trials 200[/cyan]
    """
    from nas.stages.search.request import SearchCluster, SearchRequest
    from nas.stages.search.run import run as stage
    from nas.stages.search.view import feasibility_table, search_table
    from nas.terminal.progress import TerminalProgress
    from search_spaces import InputError

    if ray is None and (concurrency is not None or cpus_per_trial != 1.0 or gpus_per_trial):
        raise InputError("--concurrency, --cpus-per-trial, --gpus-per-trial", "need a cluster; add --ray")
    options = {"objectives": objectives, "devices": devices, "max": most, "min": least, "trials": trials, "seed": seed,
               "sampler": sampler, "limit": limit, "batch_size": batch_size, "race": race, "warm_start": warm_start,
               "calibrate": calibrate}
    given = {name: value for name, value in options.items() if value is not None}
    cluster = None if ray is None else SearchCluster(ray, concurrency, cpus_per_trial, gpus_per_trial)
    request = SearchRequest.of(run, given, more, fresh, cluster)
    with TerminalProgress(screen(as_json), feasibility_table) as progress:
        result = stage(request, progress)
    show_result(result.to_dict() if as_json else search_table(result))


@app.command(rich_help_panel=SUPERNETS)
def pareto(
    run: Annotated[str, typer.Argument(metavar="RUN", autocompletion=_complete.runs, show_default=False,
                                       help="A run with a search.")],
    device: Annotated[str | None, typer.Option(
        "--device", metavar="DEVICE", autocompletion=_complete.devices, show_default=False,
        help="Show only the front of this device, which may be profiled after the search.")] = None,
    as_json: Json = False,
) -> None:
    """Show the Pareto-optimal architectures of each device.

    Example: [cyan]nas pareto first --device cpu --json[/cyan]
    """
    from nas.stages.search.request import ParetoRequest
    from nas.stages.search.run import read_fronts
    from nas.stages.search.view import fronts_table

    fronts = read_fronts(ParetoRequest(run, device))
    show_result(fronts.to_dict() if as_json else fronts_table(fronts))
