"""Lazy public names of a package: imported on first use, not with the package."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `__getattr__ = lazy(__name__, {"Supernet": "supernet.supernet"})`.

    Args:
        homes: the module that defines each public name. No name may equal a module of the package, because importing
            that module would replace the name.
    """
    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return get
