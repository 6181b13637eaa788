"""Export formats: one file each, found by its name; README.md of this folder has the contract.

User formats come from packages, through the entry-point group `nas.formats`, or from single files: see
`search_spaces.plugins`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from search_spaces import InputError, plugins
from search_spaces.errors import Option, did_you_mean

GROUP = "nas.formats"
HOLDS = ("HELP", "DYNAMIC", "INT8", "missing", "write", "load")
"""Required names of a file."""


def names() -> tuple[str, ...]:
    """The formats: file names with dashes."""
    return tuple(sorted(_registry()))


def get(name: str) -> Any:
    """The module of a format. Raises InputError if there is none."""
    try:
        return _registry()[name]
    except KeyError:
        raise InputError(Option("format"), f"{name!r} is unknown; allowed: {', '.join(names())}"
                                           f"{did_you_mean(name, names())}") from None


@plugins.cached
def _registry() -> dict[str, ModuleType]:
    found = list(plugins.extensions(__name__, GROUP, lambda module: hasattr(module, "DYNAMIC")))
    for plugin in found:
        plugins.check_holds(plugin, HOLDS, "format")
    return plugins.by_file_name(found, "format")
