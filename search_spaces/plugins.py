"""Code from outside that adds blocks and runtimes: modules of installed packages, and Python files of the user's.

A package names its modules as entry points. A file is named in the variable NAS_PLUGINS, or by `add`; several have the
separator of paths between them. Processes that are started from here, workers of a cluster too, see the same files.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from search_spaces.errors import InputError

VARIABLE = "NAS_PLUGINS"
_caches: list[Any] = []
Found = TypeVar("Found")


@dataclass(frozen=True)
class Plugin:
    """A module from outside: its name, and where it was named."""

    name: str
    where: str
    module: ModuleType


def add(path: str | os.PathLike[str]) -> None:
    """Use a Python file from now on, here and in the processes that are started from here.

    Raises:
        InputError: it cannot be imported, or its name is another module's.
    """
    file = os.path.abspath(path)
    _from_file(file)
    os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys([*named(), file]))
    for cache in _caches:
        cache.cache_clear()


def named() -> list[str]:
    """The files and modules that the variable names."""
    return [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]


def cached(function: Callable[[], Found]) -> Callable[[], Found]:
    """Compute what depends on plugins once, and anew when one was added."""
    made = lru_cache(maxsize=1)(function)
    _caches.append(made)
    return made


def installed(group: str, first: str = "") -> Iterator[Plugin]:
    """The modules that packages name in a group of entry points, sorted, one of them first. Raises InputError."""
    for point in sorted(entry_points(group=group), key=lambda point: (point.value != first, point.value)):
        where = f"package {point.value!r} (entry point {group}:{point.name})"
        yield Plugin(point.value, where, imported(point.value, where, "fix or uninstall it"))


def files() -> Iterator[Plugin]:
    """The modules that the variable names. Raises InputError."""
    names = [os.path.abspath(name) if name.endswith(".py") else name for name in named()]
    if names:
        os.environ[VARIABLE] = os.pathsep.join(names)  # other processes may work in other folders
    for name in names:
        module = _from_file(name) if name.endswith(".py") else imported(name, VARIABLE, "take it out")
        yield Plugin(module.__name__, f"{VARIABLE}: {name}", module)


def imported(name: str, where: str, remedy: str) -> ModuleType:
    """A module by its name. Raises InputError for whatever it raises."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise InputError(where, f"cannot be imported: {error}; {remedy}") from error


def _from_file(name: str) -> ModuleType:
    """A file's module: under its own name, so that other processes find it under the same."""
    path = Path(name).absolute()
    if not path.is_file():
        raise InputError(VARIABLE, f"{name} is no file; give the path of a Python file, or take it out")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    found = imported(path.stem, f"{VARIABLE}: {name}", "fix it, or take it out")
    if Path(found.__file__ or "").resolve() != path.resolve():
        raise InputError(f"{VARIABLE}: {name}", f"another module is called {path.stem}; rename the file")
    return found
