"""The command line: parse, call one stage, print. Heavy imports happen inside the commands."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from typing import Any

import typer

from nas.cli._app import LoggedCommand, app
from nas.cli._log import Log
from nas.cli._process import STOPPED, Stops, open_streams, stoppable
from nas.core.commands import command_line
from nas.terminal.text import printable

PANELS = ("project", "report", "architectures", "devices", "training", "search", "subnets", "using")
"""Where the commands are, in the order of the help."""
for _name in PANELS:
    importlib.import_module(f"nas.cli.{_name}")
for _command in app.registered_commands:
    _command.cls = _command.cls if issubclass(_command.cls or object, LoggedCommand) else LoggedCommand

_USAGE_ERROR: Any = typer.BadParameter.__base__


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done; 1: a check failed, or an internal error; 2: bad input, one sentence per fault on stderr; 130:
    stopped by Ctrl-C, SIGTERM or SIGHUP. Commands are logged in the runs they worked on. With NAS_DEBUG=1 internal
    errors are raised.
    """
    open_streams()
    log = Log(sys.argv[1:] if argv is None else argv)
    with stoppable() as stops:
        try:
            code, message = _attempt(argv, log, stops)
        except KeyboardInterrupt:  # another signal while the first was handled
            code, message = STOPPED, ""
        stops.ending = True
        if message is not None:
            log.close(code, message)
        return _print(message or "", code)


def _attempt(argv: list[str] | None, log: Log, stops: Stops) -> tuple[int, str | None]:
    """The exit code of a command and its message; None if all is printed and the log is written."""
    try:
        with log.listening():
            code = int(app(args=argv, prog_name="nas", standalone_mode=False, obj=log) or 0)
        sys.stdout.flush()
        return code, ""
    except SystemExit as error:  # completion was installed or printed
        return (STOPPED, "") if stops.requested else (int(error.code or 0), None)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0, ""
    except (Exception, KeyboardInterrupt) as error:
        known = (STOPPED, "") if stops.requested else _explain(error)  # errors of an interrupted import do not matter
        if known is not None:
            return known
        if os.environ.get("NAS_DEBUG") == "1":
            raise
        return _print(_unexpected(error, log), 1), None


def _explain(error: BaseException) -> tuple[int, str] | None:
    """The exit code and message of an expected error."""
    from nas.core.stopping import Stopped
    from search_spaces.errors import InputError

    if isinstance(error, typer.Abort) and isinstance(error.__context__, EOFError):
        return 2, "standard input ended before the answer to a question; use an option instead (see --help)"
    if isinstance(error, (Stopped, KeyboardInterrupt, typer.Abort)):  # already printed
        return STOPPED, ""
    if isinstance(error, InputError):
        return error.exit_code, command_line(error.marked)
    if isinstance(error, OSError):
        return 2, f"{error.filename or 'output'}: {error.strerror}"
    if isinstance(error, _USAGE_ERROR):
        message = error.format_message().rstrip(".")
        if not message:  # no command: the help has been printed
            return 0, ""
        return 2, f"{message}; see {error.ctx.command_path if error.ctx else 'nas'} --help"
    return None


def _unexpected(error: BaseException, log: Log) -> str:
    path = log.close_failed(error)
    what = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}".rstrip(": ")
    where = f"details are in {path}, please report them; " if path else ""
    return f"internal error ({what}); {where}NAS_DEBUG=1 prints them here"


def _print(message: str, code: int) -> int:
    with suppress(OSError):  # the reader is gone
        for line in message.split("\n") if message else ():
            print(f"nas: {printable(line)}", file=sys.stderr)
    return code
