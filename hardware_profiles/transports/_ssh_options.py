"""Options of ssh that a device's file may set: those that can neither run a program nor write a file here.

A device file may come from someone else. ssh has options that load a library (PKCS11Provider, SmartcardDevice), run
a command (ProxyCommand, Match exec), send this machine's variables (SendEnv) or open ports; every version may add more.
So safe options are listed here. All others belong in ~/.ssh/config, which the user controls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HOST = r"(?!-)([\w.+-]+@(?!-))?[\w.:%-]+"
"""A host in ssh syntax, without shell metacharacters."""
_ANY, _WORDS, _NUMBER, _SWITCH = r".+", r"[\w.,+@*!^-]+", r"\d+", r"yes|no|True|False"
_JUMP = rf"{HOST}(:\d+)?(,{HOST}(:\d+)?)*|none"
_ALLOWED = {
    "AddressFamily": "any|inet|inet6", "BindAddress": r"[\w.:%-]+", "BindInterface": r"[\w.:-]+",
    "CASignatureAlgorithms": _WORDS, "CertificateFile": _ANY, "CheckHostIP": _SWITCH, "Ciphers": _WORDS,
    "Compression": _SWITCH, "ConnectTimeout": _NUMBER, "ConnectionAttempts": _NUMBER, "GlobalKnownHostsFile": _ANY,
    "HostKeyAlgorithms": _WORDS, "HostKeyAlias": HOST, "HostName": HOST, "IPQoS": r"[\w ]+", "IdentitiesOnly": _SWITCH,
    "IdentityAgent": "none", "IdentityFile": _ANY, "KbdInteractiveAuthentication": _SWITCH, "KexAlgorithms": _WORDS,
    "LogLevel": r"\w+", "MACs": _WORDS, "NumberOfPasswordPrompts": _NUMBER, "PasswordAuthentication": _SWITCH,
    "Port": _NUMBER, "PreferredAuthentications": _WORDS, "ProxyJump": _JUMP, "PubkeyAcceptedAlgorithms": _WORDS,
    "PubkeyAuthentication": _SWITCH, "RekeyLimit": r"[\w ]+", "RequiredRSASize": _NUMBER,
    "ServerAliveCountMax": _NUMBER, "ServerAliveInterval": _NUMBER, "StrictHostKeyChecking": "yes|ask|True",
    "TCPKeepAlive": _SWITCH, "User": r"(?!-)[\w.+-]+", "UserKnownHostsFile": _ANY,
}
"""Option -> pattern of its value.

Host keys are always checked: otherwise ssh would write a new key to the known hosts file, and the device file could
name any file as that one.
"""
_LOWER = {name.lower(): name for name in _ALLOWED}
_READ_ONLY = {"StrictHostKeyChecking": "yes", "UpdateHostKeys": "no"}


def check(options: Mapping[str, str | int | bool]) -> None:
    """Raises ValueError for an option that is not allowed, or a value that is not."""
    for name, value in options.items():
        known = _LOWER.get(name.lower())
        if known is None:
            raise ValueError(f"{name!r} is not allowed here; set it in ~/.ssh/config; allowed: "
                             f"{', '.join(_ALLOWED)}")
        if not str(value).isprintable() or not re.fullmatch(_ALLOWED[known], str(value), re.ASCII | re.IGNORECASE):
            raise ValueError(f"{name}: {value!r} is not allowed here; set it in ~/.ssh/config")


def as_words(options: Mapping[str, str | int | bool]) -> dict[str, str]:
    """Options as ssh arguments; a known hosts file named here is read and never written."""
    check(options)
    given = {name: ("no", "yes")[value] if isinstance(value, bool) else str(value) for name, value in options.items()}
    named = any(name.lower() == "userknownhostsfile" for name in options)
    return {**(_READ_ONLY if named else {}), **given}
