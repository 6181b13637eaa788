"""Durations such as 90s, 3m or 1.5h."""

from __future__ import annotations

import math
import re

from search_spaces.errors import InputError, Option

SECONDS = {"s": 1, "m": 60, "h": 3600}


def parse_time(text: str) -> float:
    """Seconds of a budget such as 90s, 3m or 1.5h. Raises InputError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    seconds = float(match[1]) * SECONDS[match[2] or "s"] if match else 0.0
    if seconds <= 0:
        raise InputError(Option("budget"), f"{text!r} is not allowed; allowed: a time such as 90s, 3m or 1h")
    return seconds


def rounded_up(seconds: float) -> str:
    """A time as `parse_time` reads it, rounded up to five seconds or a minute."""
    return f"{math.ceil(seconds / 5) * 5}s" if seconds < 120 else f"{math.ceil(seconds / 60)}m"
