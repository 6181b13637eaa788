"""Shared by all commands: the application, its options, and output streams."""

from __future__ import annotations

import io
import os
import sys
from importlib.metadata import version
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console, RenderableType
from typer.core import TyperCommand, TyperGroup

from nas.cli import _complete
from nas.terminal.text import PlainConsole, printable

ALL, SPACES, SUPERNETS, SUBNETS = "All stages", "Spaces and devices", "Training and search", "Subnets"
"""Groups of commands in the help, in order of use."""


class Group(TyperGroup):
    """A command group with help that fits on one screen."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All options; the one that prints what --install-completion installs is not shown."""
        params: list[Any] = super().get_params(ctx)
        for param in params:
            param.hidden = getattr(param, "hidden", False) or param.name == "show_completion"
            if param.name == "install_completion":
                param.help = "Install shell completion."
        return params


class LoggedCommand(TyperCommand):
    """A command that logs its arguments."""

    def invoke(self, ctx: Any) -> Any:
        """Record the parameters, then run the command."""
        if ctx.obj is not None:
            ctx.obj.params = dict(ctx.params)
        return super().invoke(ctx)


app = typer.Typer(
    cls=Group, help="Hardware-aware architecture search for efficient Transformers.", no_args_is_help=True,
    rich_markup_mode="rich", pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(version("paretoformer"))
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True,
                                               help="Print the version and exit.")] = False,
) -> None:
    """Hardware-aware architecture search for efficient Transformers."""


SpaceOrArch = Annotated[str, typer.Argument(
    metavar="SPACE_OR_ARCH", autocompletion=_complete.architectures, show_default=False,
    help="A shipped space, a published architecture (see nas published), a space's YAML file, an architecture's JSON "
         "file or folder, or RUN/KEY, where KEY is a prefix of the key of a subnet or of a front architecture.")]
SubnetName = Annotated[str, typer.Argument(
    metavar="SUBNET", autocompletion=_complete.subnets, show_default=False,
    help="Folder of a subnet, or RUN/KEY, where KEY is a prefix of its key.")]
SeqLen = Annotated[int | None, typer.Option(
    "--seq-len", metavar="N", show_default=False, help="Sequence length; default 128, or the context if shorter.")]
TargetLen = Annotated[int | None, typer.Option(
    "--target-len", metavar="N", show_default=False, help="Target length (seq2seq); default: --seq-len.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def screen(as_json: bool = False, markup: bool = False) -> Console:
    """A console on stdout, wide enough for whole tables in a pipe or file; on stderr if JSON is printed.

    Args:
        markup: whether brackets are Rich markup; false for untrusted text.
    """
    stream = sys.stderr if as_json else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")  # an unsupported character is not an error
    return PlainConsole(stderr=as_json, highlight=False, width=_width(stream), markup=markup, emoji=False)


def _width(stream: TextIO) -> int | None:
    return None if stream.isatty() or "COLUMNS" in os.environ else 160


def show_result(what: dict[str, Any] | RenderableType) -> None:
    if isinstance(what, dict):
        from nas.core.run_dir import json_text

        print(json_text({"schema_version": 1, **what}))
    else:
        screen().print(what)


def show_text(text: str) -> None:
    """Print a text verbatim: not wrapped, without markup, with control characters escaped."""
    screen().file.write(printable(text) + "\n")


def show_note(text: str) -> None:
    """Print a note on stderr."""
    print(printable(text), file=sys.stderr)
