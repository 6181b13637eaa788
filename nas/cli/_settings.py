"""`KEY=VALUE` texts of the command line as tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from search_spaces.errors import Fault, InputError


def parse_settings(texts: Sequence[str], flag: str) -> dict[str, str]:
    """`key=value` texts as a table. Raises InputError for a text without =, and for a key given twice."""
    settings: dict[str, str] = {}
    faults = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            faults.append(Fault("", f"{text!r} must be KEY=VALUE"))
        elif key in settings:
            faults.append(Fault(key, "is given twice"))
        settings[key] = value
    if faults:
        raise InputError(flag, faults)
    return settings


def paths_and_settings(texts: Sequence[str], flag: str) -> tuple[list[str], dict[str, str]]:
    """Texts that are existing paths, and the others as a table. Raises InputError."""
    settings = [text for text in texts if re.match(r"[a-z_]+=", text) and not Path(text).expanduser().exists()]
    return [text for text in texts if text not in settings], parse_settings(settings, flag)
