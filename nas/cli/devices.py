"""`nas devices`, `profile` and `latency`: price lists of devices."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nas.cli import _complete
from nas.cli._app import SPACES, Json, SpaceOrArch, app, screen, show_result


@app.command(rich_help_panel=SPACES)
def devices(as_json: Json = False) -> None:
    """List the shipped devices, and what stands in their way here.

    Example: [cyan]nas devices[/cyan]
    """
    from nas import profile_command

    rows = profile_command.devices_data()
    show_result({"devices": rows} if as_json else profile_command.devices_table(rows))


@app.command(rich_help_panel=SPACES)
def profile(
    device: Annotated[str, typer.Argument(metavar="DEVICE", autocompletion=_complete.devices, show_default=False,
                                          help="A shipped device (see nas devices) or a YAML file.")],
    space: Annotated[str | None, typer.Option(
        "--space", metavar="SPACE", autocompletion=_complete.spaces, show_default=False,
        help="Whose units are priced: a space, or a run's folder, as its data may need another vocabulary. By default "
             "the last one.")] = None,
    budget: Annotated[str, typer.Option("--budget", metavar="TIME", help="For timing, such as 90s, 3m or 1h.")] = "3m",
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", show_default=False,
                                            help="The profile's folder; runs/profiles/DEVICE by default.")] = None,
    phase: Annotated[list[str] | None, typer.Option(
        "--phase", metavar="PHASE", show_default=False,
        help="prefill (whole sequences) or decode (one more token); twice for both. By default what the device's file "
             "says.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Measure whole models and compare with what is predicted; "
                                                        "exits 1 where predictions are off.")] = False,
    n: Annotated[int, typer.Option("-n", metavar="N", min=4, help="How many models --check measures.")] = 50,
    measurements: Annotated[str | None, typer.Option(
        "--from", metavar="FILE", show_default=False,
        help="Fit whole models measured elsewhere: a CSV with ms, and architecture (JSON) or key.")] = None,
    as_json: Json = False,
) -> None:
    """Measure the latency table of a device, or check one.

    Stopped, it goes on when called again.

    Example: [cyan]nas profile cpu --space lm-small --budget 3m[/cyan]
    """
    from hardware_profiles.transports._base import Waiting
    from nas import profile_command

    console = screen(as_json)
    try:
        done = profile_command.profile(device, space, budget, out, phase or [], n if check else None, measurements,
                                       console)
    except Waiting as waiting:  # nothing is wrong: it is the user's turn
        show_result({"waiting": str(waiting)} if as_json else str(waiting))
        return
    if done is None:
        print("stopped; what was measured is kept: call again to go on", file=sys.stderr)
        raise typer.Exit(130)
    show_result(done.to_dict() if as_json else done.table())
    if not done.good:
        raise typer.Exit(1)


@app.command(rich_help_panel=SPACES)
def latency(
    device: Annotated[str, typer.Argument(metavar="DEVICE", autocompletion=_complete.devices, show_default=False,
                                          help="A profiled device, or the folder of a profile.")],
    arch: SpaceOrArch,
    phase: Annotated[str, typer.Option("--phase", metavar="PHASE", help="prefill or decode.")] = "prefill",
    sample: Annotated[int | None, typer.Option("--sample", metavar="SEED", show_default=False,
                                               help="Of a space, the architecture this seed samples.")] = None,
    breakdown: Annotated[bool, typer.Option("--breakdown", help="Show where the time goes.")] = False,
    as_json: Json = False,
) -> None:
    """Predict the latency of an architecture on a device.

    Of a space the largest is taken.

    Example: [cyan]nas latency cpu lm-small --breakdown[/cyan]
    """
    from nas import profile_command

    data = profile_command.latency_data(device, arch, phase, sample)
    show_result(data if as_json else profile_command.latency_table(data, breakdown))
