"""Transports: one file for each way to reach a device, found by its name."""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache
from pathlib import Path
from typing import Any

from search_spaces.errors import InputError


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """The transports of this folder."""
    found = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return tuple(sorted(name for name in found if not name.startswith("_")))


def get(name: str) -> Any:
    """The module of a transport: `Settings` and `Transport`. Raises InputError where there is none."""
    if name not in names():
        raise InputError("transport", f"{name!r} is unknown; allowed: {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{name}")
