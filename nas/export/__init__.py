"""Formats a model is shipped in: one file each, found by its name. `_base.py` says what such a file holds."""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache
from pathlib import Path
from typing import Any

from search_spaces import InputError
from search_spaces.errors import did_you_mean


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """The formats of this folder: file names with dashes."""
    found = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return tuple(sorted(name.replace("_", "-") for name in found if not name.startswith("_")))


def get(name: str) -> Any:
    """The module of a format. Raises InputError where there is none."""
    if name not in names():
        raise InputError("--format", f"{name!r} is unknown; allowed: {', '.join(names())}{did_you_mean(name, names())}")
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
