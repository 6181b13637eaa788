"""The registry of block kinds, found through the entry-point group `nas.blocks` and in the user's own files.

An entry point names a module that holds `Kind` objects, or a package whose modules do. The built-in
one is the folder `supernet.blocks`; a user's own package adds blocks the same way. Single files: see `plugins`.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import fields
from types import ModuleType

from search_spaces import plugins
from search_spaces.errors import Fault, InputError
from search_spaces.schema import ROLES, Facts, Kind

GROUP = "nas.blocks"
BUILTIN = "supernet.blocks"


def get(name: str) -> Kind:
    """The kind of that name. Raises KeyError with what there is."""
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
    found: dict[str, Kind] = {}
    owners: dict[str, str] = {}
    for plugin in (*plugins.installed(GROUP, first=BUILTIN), *plugins.files()):
        for kind in _declared(list(_modules(plugin))):
            if found.setdefault(kind.name, kind) is not kind:
                says = f"declares the kind {kind.name!r}, which {owners[kind.name]!r} declares already"
                raise InputError(plugin.where, says)
            owners.setdefault(kind.name, plugin.name)
            faults = list(_kind_faults(kind))
            if faults:
                raise InputError(plugin.where, faults)
    return found


def _kind_faults(kind: Kind) -> Iterator[Fault]:
    """Whether role, facts, dims and the module's arguments go together."""
    if kind.role not in ROLES:
        yield Fault(kind.name, f"has role {kind.role!r}; allowed: {', '.join(ROLES)}")
    known = [field.name for field in fields(Facts)]
    for name in kind.facts:
        if name not in known:
            yield Fault(kind.name, f"asks for the fact {name!r}; there are: {', '.join(known)}")
    given = {*kind.facts, *(dim.name for dim in kind.dims)}
    parameters = inspect.signature(kind.module).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    for parameter in parameters:
        if parameter.name not in given and parameter.default is parameter.empty:
            yield Fault(kind.name, f"its module takes {parameter.name!r}, which is neither a dim nor in facts")
    for name in sorted(given - {parameter.name for parameter in parameters}):
        yield Fault(kind.name, f"its module does not take {name!r}, which is a dim or in facts")


def _modules(plugin: plugins.Plugin) -> Iterator[ModuleType]:
    yield plugin.module
    for info in pkgutil.iter_modules(getattr(plugin.module, "__path__", ()), plugin.module.__name__ + "."):
        yield plugins.imported(info.name, plugin.where, "fix or uninstall it")


def _declared(modules: list[ModuleType]) -> list[Kind]:
    kinds = [value for module in modules for value in vars(module).values() if isinstance(value, Kind)]
    return list({id(kind): kind for kind in kinds}.values())
