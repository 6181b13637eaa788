"""`nas devices`, `profile` and `latency`: devices and their latency tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nas.cli import _complete
from nas.cli._app import SPACES, Json, SpaceOrArch, app, screen, show_result


@app.command(rich_help_panel=SPACES)
def devices(
    check: Annotated[bool, typer.Option(
        "--check", help="Also contact remote devices; takes a few seconds "
                        "each.")] = False,
    as_json: Json = False,
) -> None:
    """List devices, and whether each is available here.

    Lists the shipped devices and those profiled in this folder.

    Example: [cyan]nas devices[/cyan]
    """
    from nas.stages.devices.request import DevicesRequest
    from nas.stages.devices.run import run
    from nas.stages.devices.view import devices_table
    from nas.terminal.progress import TerminalProgress

    with TerminalProgress(screen(as_json)) as progress:
        rows = run(DevicesRequest(check), progress)
    show_result({"devices": rows} if as_json else devices_table(rows))


@app.command(rich_help_panel=SPACES)
def profile(
    device: Annotated[str, typer.Argument(metavar="DEVICE", autocompletion=_complete.devices, show_default=False,
                                          help="A device (see nas devices) or a YAML file.")],
    space: Annotated[str | None, typer.Option(
        "--space", metavar="SPACE", autocompletion=_complete.spaces, show_default=False,
        help="Search space to profile, or a run, to use its vocabulary size. Default: the space "
             "profiled last.")] = None,
    budget: Annotated[str, typer.Option(
        "--budget", metavar="TIME", help="Total time including compilation, such as 90s, 3m or 1h.")] = "3m",
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", show_default=False,
                                            help="Folder of the profile; default runs/profiles/DEVICE.")] = None,
    phase: Annotated[list[str] | None, typer.Option(
        "--phase", metavar="PHASE", show_default=False,
        help="prefill (whole sequences) or decode (one more token); repeatable. Default: those of the "
             "device file.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Measure whole models and compare them with predictions; "
                                                        "exit code 1 if predictions are off.")] = False,
    n: Annotated[int, typer.Option("-n", metavar="N", min=4, help="Number of models that --check measures.")] = 50,
    measurements: Annotated[str | None, typer.Option(
        "--from", metavar="FILE", show_default=False,
        help="Fit a profile to models measured elsewhere: a CSV with the columns ms, and architecture (JSON) or "
             "key.")] = None,
    as_json: Json = False,
) -> None:
    """Measure the latency table of a device, or check one.

    Rerun to resume.

    Example: [cyan]nas profile cpu --space lm-small --budget 3m[/cyan]
    """
    from hardware_profiles.transports import Waiting
    from nas.core.durations import parse_time
    from nas.stages.profile.request import ProfileRequest
    from nas.stages.profile.run import run
    from nas.stages.profile.view import profile_table
    from nas.terminal.progress import TerminalProgress

    request = ProfileRequest(device, space, parse_time(budget), Path(out) if out else None, tuple(phase or ()), check,
                             n, Path(measurements) if measurements else None)
    try:
        with TerminalProgress(screen(as_json)) as progress:
            result = run(request, progress)
    except Waiting as waiting:  # not an error: the user has to act
        show_result({"waiting": str(waiting)} if as_json else str(waiting))
        return
    show_result(result.to_dict() if as_json else profile_table(result))
    if not result.good:
        raise typer.Exit(1)


@app.command(rich_help_panel=SPACES)
def latency(
    device: Annotated[str, typer.Argument(metavar="DEVICE", autocompletion=_complete.devices, show_default=False,
                                          help="A profiled device, or the folder of a profile.")],
    arch: SpaceOrArch,
    phase: Annotated[str, typer.Option("--phase", metavar="PHASE", help="prefill or decode.")] = "prefill",
    sample: Annotated[int | None, typer.Option("--sample", metavar="SEED", show_default=False,
                                               help="For a space: the architecture sampled with this seed.")] = None,
    breakdown: Annotated[bool, typer.Option("--breakdown", help="Show the latency of every unit.")] = False,
    as_json: Json = False,
) -> None:
    """Predict the latency of an architecture on a device.

    For a space: its largest architecture.

    Example: [cyan]nas latency cpu lm-small --breakdown[/cyan]
    """
    from nas.stages.profile.latency import predict_latency
    from nas.stages.profile.request import LatencyRequest
    from nas.stages.profile.view import latency_table

    result = predict_latency(LatencyRequest(device, arch, phase, sample))
    show_result(result.to_dict() if as_json else latency_table(result, breakdown))
