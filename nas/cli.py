"""The command line: parse, call one stage, print. Heavy imports happen inside the commands."""

from __future__ import annotations

import io
import os
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType

app = typer.Typer(
    help="Hardware-aware architecture search for efficient Transformers.", no_args_is_help=True,
    rich_markup_mode="rich", pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]},
)
LOOK, COSTS, DEVICES, TRAIN = "Architectures", "Costs", "Devices", "Training"
_USAGE_ERROR: Any = typer.BadParameter.__base__


def _version(wanted: bool) -> None:
    if wanted:
        print(version("paretoformer"))
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True,
                                               help="Print the version and stop.")] = False,
) -> None:
    """Hardware-aware architecture search for efficient Transformers."""


def _names(incomplete: str) -> list[str]:
    """What the shell can complete SPACE_OR_ARCH to, beside files."""
    from nas.resolve import known_names

    return [name for name in known_names() if name.startswith(incomplete)]


SpaceOrArch = Annotated[str, typer.Argument(
    metavar="SPACE_OR_ARCH", autocompletion=_names, show_default=False,
    help="A shipped space, a published architecture (see nas published), a space's YAML file, or an architecture's "
         "JSON file or folder.")]
SeqLen = Annotated[int | None, typer.Option(
    "--seq-len", metavar="N", show_default=False, help="Tokens of the sequence; 128 or the context if that is less.")]
TargetLen = Annotated[int | None, typer.Option(
    "--target-len", metavar="N", show_default=False, help="Tokens of the target (seq2seq); as --seq-len by default.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


@app.command(rich_help_panel=LOOK)
def spaces(as_json: Json = False) -> None:
    """List the shipped search spaces.

    Example: [cyan]nas spaces --json[/cyan]
    """
    from nas import tables

    rows = tables.spaces_data()
    _print({"spaces": rows} if as_json else tables.spaces_table(rows))


@app.command(rich_help_panel=LOOK)
def blocks(
    kind: Annotated[str | None, typer.Argument(metavar="[KIND]", show_default=False, help="One kind only.")] = None,
    as_json: Json = False,
) -> None:
    """List the installed block kinds and the dims a space can give each.

    Example: [cyan]nas blocks lsra[/cyan]
    """
    from nas import tables

    found = tables.blocks_data(kind)
    _print({"blocks": found} if as_json else tables.blocks_table(found))


@app.command(rich_help_panel=LOOK)
def show(
    space_or_arch: SpaceOrArch, seq_len: SeqLen = None, target_len: TargetLen = None,
    sample: Annotated[int | None, typer.Option("--sample", metavar="SEED", show_default=False,
                                               help="Draw the architecture this seed samples.")] = None,
    smallest: Annotated[bool, typer.Option("--smallest", help="Draw the smallest only.")] = False,
    largest: Annotated[bool, typer.Option("--largest", help="Draw the largest only.")] = False,
) -> None:
    """Draw the layers of an architecture, or sum up a space and draw its largest and smallest.

    Example: [cyan]nas show lm-tiny --sample 7[/cyan]
    """
    from nas import drawing, resolve, tables

    found = resolve.resolve(space_or_arch)
    picked = resolve.pick(found, sample, smallest, largest)
    length = resolve.sequence_length(found, seq_len, target_len)
    screen = _console()
    pictures = [drawing.draw(named, length, target_len, screen.width, screen.options.ascii_only) for named in picked]
    if not isinstance(found, resolve.Named) and len(pictures) > 1:
        pictures.insert(0, tables.space_summary(found))
    _print(pictures[0])
    for picture in pictures[1:]:
        _print("")
        _print(picture)


@app.command("count", rich_help_panel=COSTS)
def count_command(
    space_or_arch: SpaceOrArch, seq_len: SeqLen = None, target_len: TargetLen = None,
    convention: Annotated[str, typer.Option(
        "--convention", metavar="C", help="How multiply-adds are counted; an unknown name lists them.")] = "plain",
    as_json: Json = False,
) -> None:
    """Count parameters and multiply-adds; of a space its smallest, median and largest.

    Smallest and largest have every dimension at its least and greatest.

    Example: [cyan]nas count bert-base --seq-len 512[/cyan]
    """
    from nas import resolve, tables

    found = resolve.resolve(space_or_arch)
    length = resolve.sequence_length(found, seq_len, target_len)
    costs = tables.costs(found, length, target_len, convention)
    setting = {"seq_len": length, "target_len": target_len, "convention": convention}
    _print(tables.costs_data(found, costs, setting) if as_json else tables.costs_table(costs))


@app.command(rich_help_panel=COSTS)
def published(as_json: Json = False) -> None:
    """Compare our counts with published ones; exits 1 where one misses its tolerance.

    Example: [cyan]nas published[/cyan]
    """
    from nas import tables
    from nas.published import check_published

    rows = check_published()
    _print(tables.published_data(rows) if as_json else tables.published_table(rows, _console().width))
    if any(row.result == "fail" for row in rows):
        raise typer.Exit(1)


@app.command(rich_help_panel=DEVICES)
def devices(as_json: Json = False) -> None:
    """List the shipped devices, and what stands in the way of using one here.

    Example: [cyan]nas devices[/cyan]
    """
    from nas import profile_command

    rows = profile_command.devices_data()
    _print({"devices": rows} if as_json else profile_command.devices_table(rows))


@app.command(rich_help_panel=DEVICES)
def profile(
    device: Annotated[str, typer.Argument(metavar="DEVICE", show_default=False,
                                          help="A shipped device (see nas devices) or a YAML file.")],
    space: Annotated[str | None, typer.Option("--space", metavar="SPACE", autocompletion=_names, show_default=False,
                                              help="Whose units are priced; the last one by default.")] = None,
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
    """Measure a latency table for a device, or check one. Stopped, it goes on when called again.

    Example: [cyan]nas profile cpu --space lm-small --budget 3m[/cyan]
    """
    from hardware_profiles.transports._base import Waiting
    from nas import profile_command

    console = Console(stderr=True, highlight=False) if as_json else _console()
    try:
        done = profile_command.profile(device, space, budget, out, phase or [], n if check else None, measurements,
                                       console)
    except Waiting as waiting:  # nothing is wrong: it is the user's turn
        _print({"waiting": str(waiting)} if as_json else str(waiting))
        return
    if done is None:
        print("stopped; what was measured is kept: call again to go on", file=sys.stderr)
        raise typer.Exit(130)
    _print(done.to_dict() if as_json else done.table())
    if not done.good:
        raise typer.Exit(1)


@app.command(rich_help_panel=DEVICES)
def latency(
    device: Annotated[str, typer.Argument(metavar="DEVICE", show_default=False,
                                          help="A profiled device, or the folder of a profile.")],
    arch: SpaceOrArch,
    phase: Annotated[str, typer.Option("--phase", metavar="PHASE", help="prefill or decode.")] = "prefill",
    sample: Annotated[int | None, typer.Option("--sample", metavar="SEED", show_default=False,
                                               help="Of a space, the architecture this seed samples.")] = None,
    breakdown: Annotated[bool, typer.Option("--breakdown", help="Show where the time goes.")] = False,
    as_json: Json = False,
) -> None:
    """Predict the latency of an architecture on a profiled device; of a space its largest.

    Example: [cyan]nas latency cpu lm-small --breakdown[/cyan]
    """
    from nas import profile_command

    data = profile_command.latency_data(device, arch, phase, sample)
    _print(data if as_json else profile_command.latency_table(data, breakdown))


RayAddress = Annotated[str, typer.Option(
    "--ray", metavar="auto|ADDRESS|local",
    help="The Ray cluster that several --workers run on: the one this machine belongs to, one by its address, or one "
         "on this machine for this command.")]


@app.command(rich_help_panel=TRAIN)
def train(
    space: Annotated[str | None, typer.Option("--space", metavar="SPACE", autocompletion=_names, show_default=False,
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
    resume: Annotated[str | None, typer.Option("--resume", metavar="NAME", show_default=False,
                                               help="Go on with a run that was stopped.")] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1,
                                         help="Train data-parallel in so many processes on a Ray cluster.")] = 1,
    ray: RayAddress = "local",
) -> None:
    """Train the supernet of a space. Ctrl-C writes a checkpoint and stops.

    Example: [cyan]nas train --space lm-tiny --task lm --run first --set steps=300[/cyan]
    """
    from nas import train_command

    finished = train_command.train(space=space, task=task, data=data or [], run=run, settings=settings or [],
                                   resume=resume, workers=workers, address=ray, console=_console())
    if not finished:
        raise typer.Exit(130)


@app.command(rich_help_panel=TRAIN)
def rank(
    run: Annotated[str, typer.Argument(metavar="RUN", show_default=False, help="A finished run of nas train.")],
    n: Annotated[int, typer.Option("-n", metavar="N", help="How many architectures are trained from scratch.")] = 20,
    steps: Annotated[int | None, typer.Option("--steps", metavar="N", min=1, show_default=False,
                                              help="Steps of each; as many as the supernet's by default.")] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1,
                                         help="Train so many at once on a Ray cluster.")] = 1,
    ray: RayAddress = "local", as_json: Json = False,
) -> None:
    """Report how well a supernet ranks architectures, beside their size and depth alone.

    N architectures are trained from scratch, half of them of nearly equal MACs. Stopped, it goes on when called again.

    Example: [cyan]nas rank first -n 20 --steps 300[/cyan]
    """
    from nas import rank_command

    console = Console(stderr=True, highlight=False) if as_json else _console()
    report = rank_command.rank(run, n, steps, workers, ray, console)
    if report is None:
        raise typer.Exit(130)
    _print(report.to_dict() if as_json else rank_command.report_table(report))


@app.command(rich_help_panel=TRAIN)
def evaluate(
    run: Annotated[str, typer.Argument(metavar="RUN", show_default=False, help="A finished run of nas train.")],
    arch: Annotated[str | None, typer.Argument(
        metavar="[ARCH]", show_default=False,
        help="An architecture's JSON file or folder; the smallest and the largest by default.")] = None,
    split: Annotated[str, typer.Option("--split", metavar="NAME", help="valid or test.")] = "valid",
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, show_default=False,
                                              help="A fair sample of so many examples only.")] = None,
    as_json: Json = False,
) -> None:
    """Measure architectures on a trained supernet's weights, with every metric of the task.

    Example: [cyan]nas evaluate first --split test --limit 100[/cyan]
    """
    from nas import evaluate as stage
    from nas import tables

    with Console(stderr=True).status("evaluating ..."):
        found = stage.evaluate(run, arch, split, limit)
    _print({"split": split, "limit": limit, "architectures": found} if as_json else tables.metrics_table(found))


@app.command("settings", rich_help_panel=TRAIN)
def settings_command(as_json: Json = False) -> None:
    """List the settings of a training, for nas train --set.

    Example: [cyan]nas settings[/cyan]
    """
    from nas import tables

    rows = tables.settings_data()
    _print({"settings": rows} if as_json else tables.settings_table(rows))


class _Console(Console):
    """A console that tells `main` when nobody reads any more."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _console() -> Console:
    """A console on stdout; into a pipe or file it has room for whole tables."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a sign the terminal lacks is no reason to stop
    fixed = sys.stdout.isatty() or "COLUMNS" in os.environ
    return _Console(highlight=False, width=None if fixed else 160)


def _print(what: dict[str, Any] | RenderableType) -> None:
    if isinstance(what, dict):
        from nas.run_dir import json_text

        print(json_text({"schema_version": 1, **what}))
    else:
        _console().print(what)


def main(argv: list[str] | None = None) -> int:
    """Run the command line and give its exit code.

    0: done; 1: a check failed; 2: bad input, one sentence per fault on stderr; 130: Ctrl-C.
    """
    try:
        code = app(args=argv, prog_name="nas", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except _USAGE_ERROR as error:
        message = error.format_message().rstrip(".")
        if not message:  # no command: the help has been printed
            return 0
        return _refuse(f"{message}; see {error.ctx.command_path if error.ctx else 'nas'} --help")
    except ValueError as error:
        from search_spaces.errors import InputError

        if not isinstance(error, InputError):
            raise
        return _refuse(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _refuse(f"{error.filename or 'output'}: {error.strerror}")
    except (KeyboardInterrupt, typer.Abort):
        return 130


def _refuse(message: str) -> int:
    for line in message.splitlines():
        print(f"nas: {line}", file=sys.stderr)
    return 2
