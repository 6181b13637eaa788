"""`nas spaces`, `blocks`, `show`, `count` and `published`: look at architectures and what they cost."""

from __future__ import annotations

from typing import Annotated

import typer

from nas.cli._app import SPACES, Json, SeqLen, SpaceOrArch, TargetLen, app, screen, show_result


@app.command(rich_help_panel=SPACES)
def spaces(as_json: Json = False) -> None:
    """List the shipped search spaces.

    Example: [cyan]nas spaces --json[/cyan]
    """
    from nas.terminal import tables

    rows = tables.spaces_data()
    show_result({"spaces": rows} if as_json else tables.spaces_table(rows))


@app.command(rich_help_panel=SPACES)
def blocks(
    kind: Annotated[str | None, typer.Argument(metavar="[KIND]", show_default=False, help="Show one kind "
                                                                                          "only.")] = None,
    as_json: Json = False,
) -> None:
    """List the block kinds and their dims.

    Example: [cyan]nas blocks lsra[/cyan]
    """
    from nas.terminal import tables

    data = tables.blocks_data(kind)
    show_result({"blocks": data} if as_json else tables.blocks_table(data))


@app.command(rich_help_panel=SPACES)
def show(
    space_or_arch: SpaceOrArch, seq_len: SeqLen = None, target_len: TargetLen = None,
    sample: Annotated[int | None, typer.Option("--sample", metavar="SEED", show_default=False,
                                               help="Draw the architecture sampled with this seed.")] = None,
    smallest: Annotated[bool, typer.Option("--smallest", help="Draw the smallest only.")] = False,
    largest: Annotated[bool, typer.Option("--largest", help="Draw the largest only.")] = False,
) -> None:
    """Draw an architecture, or the largest and smallest of a space.

    Example: [cyan]nas show lm-tiny --sample 7[/cyan]
    """
    from nas.core import resolve
    from nas.terminal import drawing, tables

    resolved = resolve.resolve(space_or_arch)
    picked = resolve.pick(resolved, sample, smallest, largest)
    length = resolve.sequence_length(resolved, seq_len, target_len)
    console = screen()
    pictures = [drawing.draw(named, length, target_len, console.width, console.options.ascii_only) for named in picked]
    if not isinstance(resolved, resolve.Named) and len(pictures) > 1:
        pictures.insert(0, tables.space_summary(resolved))
    show_result(pictures[0])
    for picture in pictures[1:]:
        show_result("")
        show_result(picture)


@app.command("count", rich_help_panel=SPACES)
def count_command(
    space_or_arch: SpaceOrArch, seq_len: SeqLen = None, target_len: TargetLen = None,
    convention: Annotated[str, typer.Option(
        "--convention", metavar="C", help="Counting convention for multiply-adds: plain, lite, mobilebert or "
                                          "delight.")] = "plain",
    as_json: Json = False,
) -> None:
    """Count parameters and multiply-adds.

    For a space: its smallest, median and largest architecture. The smallest has the minimum of every dimension, the
    largest the maximum.

    Example: [cyan]nas count bert-base --seq-len 512[/cyan]
    """
    from nas.core import resolve
    from nas.terminal import tables

    named = resolve.resolve(space_or_arch)
    length = resolve.sequence_length(named, seq_len, target_len)
    costs = tables.costs(named, length, target_len, convention)
    setting = {"seq_len": length, "target_len": target_len, "convention": convention}
    show_result(tables.costs_data(named, costs, setting) if as_json else tables.costs_table(costs))


@app.command(rich_help_panel=SPACES)
def published(as_json: Json = False) -> None:
    """Compare computed counts with published ones.

    Exit code 1 if a count is outside its tolerance.

    Example: [cyan]nas published[/cyan]
    """
    from nas.core.published import check_published
    from nas.terminal import tables

    rows = check_published()
    show_result(tables.published_data(rows) if as_json else tables.published_table(rows, screen().width))
    if any(row.result == "fail" for row in rows):
        raise typer.Exit(1)
