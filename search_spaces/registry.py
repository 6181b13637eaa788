"""The registry of block kinds: those of the folder `supernet.blocks`, and of packages and files of the user.

A package names, in the entry-point group `nas.blocks`, a module that holds `Kind` objects or a package whose modules
do. Single files: see `plugins`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields

from search_spaces import plugins
from search_spaces.errors import Fault
from search_spaces.kind import ROLES, Facts, Kind

FOLDER, GROUP = "supernet.blocks", "nas.blocks"


def get(name: str) -> Kind:
    """The kind of that name. Raises KeyError with the available names."""
    try:
        return registry()[name]
    except KeyError:
        raise KeyError(f"unknown kind {name!r}; installed: {', '.join(sorted(registry()))}") from None


def names(role: str) -> list[str]:
    """The installed kinds of a role, sorted."""
    return sorted(kind.name for kind in registry().values() if kind.role == role)


@plugins.cached
def registry() -> dict[str, Kind]:
    """Every installed kind by name."""
    return plugins.declarations(FOLDER, GROUP, Kind, _kind_faults)


def _kind_faults(kind: Kind) -> Iterator[Fault]:
    """Contradictions between role, facts, dims and the module's arguments."""
    if kind.role not in ROLES:
        yield Fault(kind.name, f"has role {kind.role!r}; allowed: {', '.join(ROLES)}")
    known = [field.name for field in fields(Facts)]
    for name in kind.facts:
        if name not in known:
            yield Fault(kind.name, f"requests the unknown fact {name!r}; known facts: {', '.join(known)}")
    given = {*kind.facts, *(dim.name for dim in kind.dims)}
    parameters = inspect.signature(kind.module).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    for parameter in parameters:
        if parameter.name not in given and parameter.default is parameter.empty:
            yield Fault(kind.name, f"its module takes {parameter.name!r}, which is neither a declared dim nor a fact")
    for name in sorted(given - {parameter.name for parameter in parameters}):
        yield Fault(kind.name, f"its module does not take {name!r}, which is a declared dim or fact")
