"""`log.txt` in a run's folder: every command that worked on the run, its outcome, warnings and errors."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nas.core.commands import command_line
from nas.core.names import CONFIG, ROOT
from nas.terminal.text import printable

FILE = "log.txt"
ENDED = {0: "done", 1: "a check failed", 2: "refused", 130: "stopped"}
NAMES = ("run", "resume", "subnet", "name", "names")
"""Arguments and options that name a run, or a subnet of one."""
OURS = ("hardware_profiles", "nas", "search_spaces", "supernet")
"""Packages whose warnings are for a user, not for a programmer."""
LONGEST = 200
"""Maximum length of a logged argument, in characters: texts may be long."""
_NAME = (r"(?![\w.-]*(?:pad|bos|eos|unk|sep|cls|mask)[_-]token)"
         r"[\w.-]*(?:token|password|passwd|passphrase|secret|api[_-]?key|(?:access|secret|private)[_-]?key)")
"""Pattern of secret names: `hf_token`, not `tokens` or `pad_token`."""
_SECRET = re.compile(rf"(?i)((?:--{_NAME}[= ]|(?<![\w.-]){_NAME}['\"]?\s*[=:]\s*)['\"]?)[^\s'\",]+"
                     r"|(://)[^\s/@]+@|(\bauthorization['\"]?\s*[=:]\s*['\"]?(?:basic|bearer)?\s*)[^\s'\",]+")


class Log:
    """The log entry of one command."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.command = shlex.join(["nas", *(word if len(word) <= LONGEST else f"{word[:LONGEST]}..." for word in argv)])
        self.params: Mapping[str, Any] = {}
        """The parameters of the command, once known."""
        self.begun, self.start = datetime.now().astimezone(), time.monotonic()
        self.lines: list[str] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Record every warning; ours are printed as a sentence, others as Python does."""
        show = warnings.showwarning

        def note(message: Warning | str, category: type[Warning], filename: str, lineno: int, *more: Any,
                 **named: Any) -> None:
            text = command_line(str(message))
            self.lines.append(f"{category.__name__}: {text} ({filename}:{lineno})")
            if category.__module__.partition(".")[0] in OURS:
                print(printable(f"nas: warning: {text}"), file=sys.stderr)
            else:
                show(message, category, filename, lineno, *more, **named)

        warnings.showwarning = note
        try:
            yield
        finally:
            if warnings.showwarning is note:
                warnings.showwarning = show

    def close(self, code: int, message: str = "") -> None:
        """Write how the command ended to the log of every run that it worked on."""
        self.lines += message.splitlines()
        self._write(ENDED.get(code, str(code)), [folder / FILE for folder in folders(self.params)])

    def close_failed(self, error: BaseException) -> Path | None:
        """Log an internal error, in `runs` if the command has no run; returns the file, if it could be written.

        Local variables are omitted, because they may contain private data.
        """
        self.lines.append(f"paretoformer {version('paretoformer')}, Python {platform.python_version()}, "
                          f"{platform.platform()}")
        self.lines += "".join(traceback.format_exception(error)).splitlines()
        paths = [folder / FILE for folder in folders(self.params)]
        if not paths:
            with suppress(OSError):
                ROOT.mkdir(exist_ok=True)
            paths = [ROOT / FILE]
        return self._write("failed", paths)

    def _write(self, ended: str, paths: Sequence[Path]) -> Path | None:
        """Append to the log files; errors are ignored, because a log must not fail a command."""
        head = f"{self.begun:%Y-%m-%d %H:%M:%S%z} {self.command} | {ended} after {time.monotonic() - self.start:.1f} s"
        text = printable(without_secrets("\n    ".join([head, *self.lines]) + "\n"))
        written = None
        for path in paths:
            with suppress(OSError), path.open("a", encoding="utf-8", errors="replace") as file:
                file.write(text)
                written = written or path
        return written


def without_secrets(text: str) -> str:
    """The text without passwords in URLs and without the values of tokens and other secrets."""
    return _SECRET.sub(lambda match: f"{match[1] or match[2] or match[3]}***{'@' if match[2] else ''}", text)


def folders(params: Mapping[str, Any]) -> list[Path]:
    """The existing run folders that arguments name."""
    named: list[str] = []
    for key in NAMES:
        value = params.get(key)
        named += [str(item) for item in (value if isinstance(value, (list, tuple)) else [value]) if item]
    if params.get("config"):
        named += _of_config(Path(str(params["config"])))
    return list(dict.fromkeys(folder for name in named if (folder := _folder(name)) is not None))


def _of_config(path: Path) -> list[str]:
    """The run of a pipeline's file."""
    from search_spaces.errors import InputError
    from search_spaces.files.reading import read_yaml

    with suppress(InputError):  # faults of the file are reported elsewhere
        data = read_yaml(path)
        return [data["run"]] if isinstance(data, dict) and isinstance(data.get("run"), str) else []
    return []


def _folder(name: str) -> Path | None:
    """The run's folder: of its name or path, of RUN/KEY, or of a subnet's folder in it."""
    path, under = Path(name), ROOT / name
    candidates = [*([path] if os.sep in name else []), under, under.parent, path.parent, path.parent.parent]
    return next((candidate for candidate in candidates if (candidate / CONFIG).is_file()), None)
