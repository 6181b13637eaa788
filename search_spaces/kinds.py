"""The registry of block kinds, found through the entry-point group `nas.blocks`.

An entry point names a module that holds `Kind` objects, or a package whose modules do. The built-in
one is the folder `supernet.blocks`; a user's own package adds blocks the same way.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import entry_points
from types import ModuleType

from search_spaces.errors import InputError
from search_spaces.schema import ROLES, Kind

GROUP = "nas.blocks"


def get(name: str) -> Kind:
    """The kind of that name. Raises KeyError with what there is."""
    try:
        return registry()[name]
    except KeyError:
        raise KeyError(f"unknown kind {name!r}; installed: {', '.join(sorted(registry()))}") from None


def names(role: str) -> list[str]:
    """The installed kinds of a role, sorted."""
    return sorted(kind.name for kind in registry().values() if kind.role == role)


@lru_cache(maxsize=1)
def registry() -> dict[str, Kind]:
    """Every installed kind by name. `registry.cache_clear()` looks again."""
    found: dict[str, Kind] = {}
    for point in entry_points(group=GROUP):
        where = f"block package {point.value!r} (entry point {GROUP}:{point.name})"
        try:
            modules = list(_modules(importlib.import_module(point.value)))
        except Exception as error:
            raise InputError(where, f"cannot be imported: {error}; fix or uninstall it") from error
        for kind in _declared(modules):
            if kind.role not in ROLES:
                raise InputError(where, f"kind {kind.name!r} has role {kind.role!r}; allowed: {', '.join(ROLES)}")
            if found.setdefault(kind.name, kind) is not kind:
                raise InputError(where, f"declares the kind {kind.name!r}, which another package declares too")
    return found


def _modules(module: ModuleType) -> Iterator[ModuleType]:
    yield module
    for info in pkgutil.iter_modules(getattr(module, "__path__", ()), module.__name__ + "."):
        yield importlib.import_module(info.name)


def _declared(modules: list[ModuleType]) -> list[Kind]:
    kinds = [value for module in modules for value in vars(module).values() if isinstance(value, Kind)]
    return list({id(kind): kind for kind in kinds}.values())
