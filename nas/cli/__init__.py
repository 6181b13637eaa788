"""The command line: parse, call one stage, print. Heavy imports happen inside the commands."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import typer

from nas.cli._app import app

PANELS = ("architectures", "devices", "training", "search", "subnets", "report", "project")
"""Where the commands are, in the order of the help."""
for _name in PANELS:
    importlib.import_module(f"nas.cli.{_name}")

_USAGE_ERROR: Any = typer.BadParameter.__base__


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
        return _refuse(str(error), error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _refuse(f"{error.filename or 'output'}: {error.strerror}")
    except (KeyboardInterrupt, typer.Abort):
        return 130


def _refuse(message: str, code: int = 2) -> int:
    for line in message.splitlines():
        print(f"nas: {line}", file=sys.stderr)
    return code
