"""The system's OpenSSH client: its command line and its errors."""

from __future__ import annotations

import base64
import json
import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardware_profiles.transports import _remote
from hardware_profiles.transports._ssh_options import as_words

LEAST_PYTHON = (3, 9)
OLD_PYTHON = "paretoformer-old-python"
OWN_ERROR = 255
"""The exit code of ssh's own errors."""
_FIRST = {"BatchMode": "yes", "RequestTTY": "no", "RemoteCommand": "none"}
_LAST = {"ServerAliveInterval": 15, "ServerAliveCountMax": 3, "ClearAllForwardings": "yes", "ForwardAgent": "no",
         "ForwardX11": "no", "LogLevel": "INFO"}
_START = ("import sys; sys.path[:1] = []; import base64; sys.version_info < {least} and sys.exit('{old} %d.%d' % "
          "sys.version_info[:2]); code = {{'__name__': 'device'}}; exec(base64.b64decode(sys.argv[1]), code); "
          "import json; code['main'](json.loads(base64.b64decode(sys.argv[2])))")
"""Bootstrap code for the device's Python; runs on old versions, to check the version first."""

_MEANINGS: Sequence[tuple[str, str]] = (
    ("REMOTE HOST IDENTIFICATION HAS CHANGED",
     "{host} has a different host key than before; if it was reinstalled, run `ssh-keygen -R {host}`, then `ssh "
     "{host}`"),
    ("Host key verification failed|host key is known",
     "the host key of {host} is unknown; run `ssh {host}` once and confirm it"),
    ("UNPROTECTED PRIVATE KEY|bad permissions",
     "ssh rejects the key file because other users can read it; run `chmod 600` on it"),
    ("Permission denied|Too many authentication failures|No supported authentication",
     "{host} did not accept the key ({reason}); set transport.identity or user@host, and try `ssh {host}`"),
    ("Could not resolve hostname", "unknown host {host}; allowed: a host of ~/.ssh/config or [user@]address"),
    ("Connection refused", "{host} refused the connection; check that its ssh server runs and that transport.port is "
                           "right"),
    ("timed out|No route to host|unreachable|not responding",
     "{host} cannot be reached ({reason}); check that it is on and in the same network"),
    ("Bad configuration option|command-line|no argument after keyword|Bad number|unsupported option",
     "ssh rejects a setting ({reason}); see transport.options and `man ssh_config`"),
)


def command(settings: Any, call: Mapping[str, Any]) -> list[str]:
    """The arguments that make the device's Python do a call of `_remote.main`.

    Only the path of Python is put through a shell, quoted; all else is base64.
    """
    last = {"ConnectTimeout": settings.connect_timeout, **_LAST}
    words = ["ssh", "-T"]  # for duplicate options, ssh uses the first
    for name, value in [*_FIRST.items(), *as_words(settings.options).items(), *last.items()]:
        words += ["-o", f"{name}={value}"]
    if settings.port is not None:
        words += ["-p", str(settings.port)]
    if settings.identity is not None:
        words += ["-o", "IdentitiesOnly=yes", "-i", str(Path(settings.identity).expanduser())]
    start = _START.format(least=LEAST_PYTHON, old=OLD_PYTHON)
    program = base64.b64encode(Path(str(_remote.__file__)).read_bytes()).decode()
    arguments = base64.b64encode(json.dumps(dict(call)).encode()).decode()
    remote = " ".join(map(shlex.quote, [settings.python.removeprefix("~/"), "-c", start, program, arguments]))
    return [*words, "--", settings.host, f"{remote} && true"]  # keeps the shell alive, which reports Python's exit code


def meaning(settings: Any, code: int, errors: Sequence[str]) -> str | None:
    """The meaning of an exit code and standard error; None if the connection was lost."""
    text, last = "\n".join(errors), errors[-1].strip() if errors else "ssh printed nothing"
    host, python = settings.host, settings.python
    old = re.search(rf"^{OLD_PYTHON} (\d+\.\d+)$", text, re.MULTILINE)
    if old:
        least = ".".join(map(str, LEAST_PYTHON))
        return f"{python} on {host} is Python {old[1]}; {least} or newer is needed; set transport.python"
    if code in (126, 127):
        return f"no Python {python!r} on {host} ({last}); set transport.python to its path"
    if 128 < code < OWN_ERROR:
        return f"{python} on {host} was killed by {_signal(code - 128)}; it may have run out of memory"
    if code != OWN_ERROR:
        return f"{python} on {host} ended with code {code}: {last}"
    for pattern, sentence in _MEANINGS:
        if re.search(pattern, text):
            causes = [line.strip() for line in errors if re.search(pattern, line)]
            return sentence.format(host=host, reason=causes[-1])
    return None


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
