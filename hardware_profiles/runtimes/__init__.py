"""Runtimes: one file each, found by its name. README.md of this folder says what such a file holds.

Those of a user's own come from packages, through the entry-point group `nas.runtimes`, or from single files: see
`search_spaces.plugins`.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

from search_spaces import plugins
from search_spaces.errors import Fault, InputError

GROUP = "nas.runtimes"
ROOFLINE = "roofline"
"""The word for devices that are estimated from their specification instead."""
HOLDS = ("SUFFIX", "PRECISIONS", "OPTIONS", "missing", "versions", "load")
COMPILES = ("compile", "call")
"""What a file holds, and what beside that where it has a suffix."""


def names() -> tuple[str, ...]:
    """What runtimes are called: the names of their files with dashes."""
    return tuple(sorted(_registry()))


def get(name: str) -> Any:
    """The module of a runtime. Raises InputError where there is none."""
    try:
        return _registry()[name]
    except KeyError:
        raise InputError("runtime", f"{name!r} is unknown; allowed: {', '.join(names())}") from None


@plugins.cached
def _registry() -> dict[str, ModuleType]:
    own = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    found = {_called(name): importlib.import_module(f"{__name__}.{name}") for name in own if not name.startswith("_")}
    files = (plugin for plugin in plugins.files() if hasattr(plugin.module, "SUFFIX"))  # others hold blocks
    for plugin in (*plugins.installed(GROUP), *files):
        _check(plugin)
        if found.setdefault(_called(plugin.name), plugin.module) is not plugin.module:
            raise InputError(plugin.where, f"there is a runtime {_called(plugin.name)} already; rename the file")
    return found


def _called(module: str) -> str:
    return module.rpartition(".")[2].replace("_", "-")


def _check(plugin: plugins.Plugin) -> None:
    """Raises InputError with everything a runtime's file lacks."""
    wanted = (*HOLDS, *(COMPILES if getattr(plugin.module, "SUFFIX", "") else ()))
    lacking = [name for name in wanted if not hasattr(plugin.module, name)]
    if lacking:
        raise InputError(plugin.where, [Fault(name, "is missing; a runtime has it") for name in lacking])
