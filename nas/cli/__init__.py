"""The command line: parse, call one stage, print. Heavy imports happen inside the commands."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import typer

from nas.cli._app import Command, app
from nas.cli._log import Log

PANELS = ("project", "report", "architectures", "devices", "training", "search", "subnets", "using")
"""Where the commands are, in the order of the help."""
for _name in PANELS:
    importlib.import_module(f"nas.cli.{_name}")
for _command in app.registered_commands:
    _command.cls = Command

_USAGE_ERROR: Any = typer.BadParameter.__base__


def main(argv: list[str] | None = None) -> int:
    """Run the command line and give its exit code.

    0: done; 1: a check failed, or something nobody expected; 2: bad input, one sentence per fault on stderr; 130:
    Ctrl-C. Runs that a command worked on have it in their log. With NAS_DEBUG=1 what nobody expected is raised.
    """
    log = Log(sys.argv[1:] if argv is None else argv)
    code, says = 0, ""
    try:
        with log.listening():
            code = int(app(args=argv, prog_name="nas", standalone_mode=False, obj=log) or 0)
        sys.stdout.flush()
    except SystemExit as error:  # where completion was installed or printed
        return int(error.code or 0)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (Exception, KeyboardInterrupt) as error:
        known = _told(error)
        if known is None:
            if os.environ.get("NAS_DEBUG") == "1":
                raise
            return _print(_unexpected(error, log), 1)
        code, says = known
    log.close(code, says)
    return _print(says, code)


def _told(error: BaseException) -> tuple[int, str] | None:
    """The exit code and the sentences of what can be expected to go wrong."""
    from search_spaces.errors import InputError

    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return 130, ""
    if isinstance(error, InputError):
        return error.exit_code, str(error)
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
    where = f"the details are in {path}, please report them; " if path else ""
    return f"something went wrong that nobody expected ({what}); {where}NAS_DEBUG=1 shows them here"


def _print(message: str, code: int) -> int:
    for line in message.splitlines():
        print(f"nas: {line}", file=sys.stderr)
    return code
