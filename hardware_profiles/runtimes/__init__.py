"""Runtimes: one file each, found by its name.

README.md of this folder describes such a file. User runtimes come from packages, through the entry-point group
`nas.runtimes`, or from single files: see `search_spaces.plugins`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from search_spaces import plugins
from search_spaces.errors import InputError

GROUP = "nas.runtimes"
ROOFLINE = "roofline"
"""The runtime name of devices that are estimated from their specification."""
HOLDS = ("SUFFIX", "PRECISIONS", "OPTIONS", "missing", "versions", "load")
COMPILES = ("compile", "call")
"""Required names of a runtime file, and additional ones if it has a suffix."""


def names() -> tuple[str, ...]:
    """Names of all runtimes: file names with dashes."""
    return tuple(sorted(_registry()))


def get(name: str) -> Any:
    """The module of a runtime. Raises InputError if there is none."""
    try:
        return _registry()[name]
    except KeyError:
        raise InputError("runtime", f"{name!r} is unknown; allowed: {', '.join(names())}") from None


@plugins.cached
def _registry() -> dict[str, ModuleType]:
    modules = list(plugins.extensions(__name__, GROUP, lambda module: hasattr(module, "SUFFIX")))
    for plugin in modules:
        compiles = COMPILES if getattr(plugin.module, "SUFFIX", "") else ()
        plugins.check_holds(plugin, (*HOLDS, *compiles), "runtime")
    return plugins.by_file_name(modules, "runtime")
