"""Finds declarations of extensions: in our folders, in modules of installed packages, and in Python files of the user.

A package names its modules as entry points. A file is named in the variable NAS_PLUGINS, or by `add`; several are
separated like the paths in PATH. Processes that are started from here, including cluster workers, see the same files.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from search_spaces import declarations as own_declarations
from search_spaces.errors import Fault, InputError, did_you_mean

VARIABLE = "NAS_PLUGINS"
MOST_CACHED = 32
"""Results that a cache keeps; only caches of functions with arguments have several."""
_caches: list[Any] = []
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Declaration(Protocol):
    """An object that a file declares, such as a block kind."""

    @property
    def name(self) -> str:
        """Unique among the declarations of its type."""


Declared = TypeVar("Declared", bound=Declaration)


@dataclass(frozen=True)
class Plugin:
    """An external module: its name, and where it was registered."""

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
    forget()


def forget() -> None:
    """Clear all caches, because the variable or the installed packages have changed."""
    for cache in _caches:
        cache.cache_clear()


def named() -> list[str]:
    """The files and modules that the variable names."""
    return [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]


def cached(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Cache results that depend on plugins, by hashable arguments; recomputed when a plugin is added."""
    cached_function = lru_cache(maxsize=MOST_CACHED)(function)
    _caches.append(cached_function)
    return cast(Callable[Arguments, Result], cached_function)


def declarations(folder: str, group: str, declaration: type[Declared],
                 faults: Callable[[Declared], Iterable[Fault]]) -> dict[str, Declared]:
    """Every declaration of a type by its name: from one of our folders, installed packages and the user's files.

    Args:
        folder: a package; each of its modules may declare some.
        group: the entry points under which other packages name modules, or packages of modules.
        faults: what is wrong with a declaration.

    Raises:
        InputError: a module cannot be imported, a declaration has faults, or two have one name.
    """
    by_name: dict[str, Declared] = {}
    owners: dict[str, str] = {}
    others = [source for source in installed(group) if source.name != folder]
    sources = [(folder, folder, own_declarations.read(folder)),
               *((source.name, source.where, _namespaces(source)) for source in (*others, *files()))]
    for owner, where, namespaces in sources:
        for value in _declared(namespaces, declaration):
            if by_name.setdefault(value.name, value) is not value:
                message = f"declares the kind {value.name!r}, which {owners[value.name]!r} already declares"
                raise InputError(where, message)
            owners.setdefault(value.name, owner)
            wrong = list(faults(value))
            if wrong:
                raise InputError(where, wrong)
    return by_name


def _namespaces(plugin: Plugin) -> list[dict[str, Any]]:
    """The names of a plugin's module, and of the modules in it where it is a package."""
    inside = pkgutil.iter_modules(getattr(plugin.module, "__path__", ()), plugin.module.__name__ + ".")
    modules = [plugin.module, *(imported(info.name, plugin.where, "fix or uninstall it") for info in inside)]
    return [vars(module) for module in modules]


def _declared(namespaces: Iterable[Mapping[str, Any]], declaration: type[Declared]) -> list[Declared]:
    """What modules declare, each once, in their order."""
    values = (value for names in namespaces for value in names.values() if isinstance(value, declaration))
    return list({id(value): value for value in values}.values())


def installed(group: str) -> Iterator[Plugin]:
    """The modules that packages name in a group of entry points, sorted. Raises InputError."""
    for point in sorted(entry_points(group=group), key=lambda point: point.value):
        where = f"package {point.value!r} (entry point {group}:{point.name})"
        yield Plugin(point.value, where, imported(point.value, where, "fix or uninstall it"))


def extensions(package: str, group: str, belongs: Callable[[ModuleType], bool]) -> Iterator[Plugin]:
    """All registered modules of one sort: files of a folder, of packages, and of the user.

    Args:
        package: the folder whose modules are of this sort, those beginning with _ excepted.
        group: of entry points.
        belongs: whether a file of the user's is of this sort.

    Raises:
        InputError: a module from outside cannot be imported.
    """
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if not info.name.startswith("_"):
            yield Plugin(info.name, f"{package}.{info.name}", importlib.import_module(f"{package}.{info.name}"))
    yield from installed(group)
    yield from (plugin for plugin in files() if belongs(plugin.module))


def values(package: str, group: str, declaration: type[Declared], sort: str,
           check: Callable[[Declared, str], None] = lambda value, where: None) -> dict[str, Declared]:
    """Everything of one sort that modules declare as values of a type, by name; where it is declared: see `extensions`.

    Args:
        check: raises InputError for a value that is declared wrongly, with where that is.

    Raises:
        InputError: a module cannot be imported, a package declares nothing of the sort, or two have one name.
    """
    by_name: dict[str, Declared] = {}
    for plugin in extensions(package, group, lambda module: bool(_declared([vars(module)], declaration))):
        declared = _declared(_namespaces(plugin), declaration)
        if not declared and not plugin.where.startswith(f"{package}."):
            raise InputError(plugin.where, f"declares no {sort}")
        for value in declared:
            check(value, plugin.where)
            if by_name.setdefault(value.name, value) is not value:
                raise InputError(plugin.where, f"a {sort} {value.name} already exists; rename it")
    return by_name


class ModuleRegistry:
    """The modules of one sort by their file names with dashes, for sorts whose files are modules with certain names.

    Args:
        package: the folder of the shipped modules.
        group: of entry points.
        sort: what such a module is called, also in errors.
        required: the names that a module must have. The first one marks files of the user as of this sort.
        option: the field of a request that names a module, for errors.
    """

    def __init__(self, package: str, group: str, sort: str, required: Sequence[str],
                 option: str | None = None) -> None:
        self.package, self.group, self.sort, self.required = package, group, sort, tuple(required)
        self.option = option or sort
        self._by_name = cached(self._read)

    def names(self) -> tuple[str, ...]:
        """The names of all modules, sorted."""
        return tuple(sorted(self._by_name()))

    def get(self, name: str) -> Any:
        """The module of that name. Raises InputError if there is none."""
        try:
            return self._by_name()[name]
        except KeyError:
            raise InputError(self.option, f"{name!r} is unknown; allowed: {', '.join(self.names())}"
                                          f"{did_you_mean(name, self.names())}") from None

    def required_of(self, module: ModuleType) -> tuple[str, ...]:
        """The names that a module must have."""
        return self.required

    def _read(self) -> dict[str, ModuleType]:
        by_name: dict[str, ModuleType] = {}
        for plugin in extensions(self.package, self.group, lambda module: hasattr(module, self.required[0])):
            check_holds(plugin, self.required_of(plugin.module), self.sort)
            name = plugin.name.rpartition(".")[2].replace("_", "-")
            if by_name.setdefault(name, plugin.module) is not plugin.module:
                raise InputError(plugin.where, f"a {self.sort} {name} already exists; rename the file")
        return by_name


def check_holds(plugin: Plugin, names: Iterable[str], sort: str) -> None:
    """Raises InputError with all required names that a module lacks."""
    lacking = [name for name in names if not hasattr(plugin.module, name)]
    if lacking:
        raise InputError(plugin.where, [Fault(name, f"is missing; every {sort} needs it") for name in lacking])


def files() -> Iterator[Plugin]:
    """The modules that the variable names. Raises InputError."""
    names = [os.path.abspath(name) if name.endswith(".py") else name for name in named()]
    if names:
        os.environ[VARIABLE] = os.pathsep.join(names)  # other processes may work in other folders
    for name in names:
        module = _from_file(name) if name.endswith(".py") else imported(name, VARIABLE, "remove it")
        yield Plugin(module.__name__, f"{VARIABLE}: {name}", module)


def imported(name: str, where: str, remedy: str) -> ModuleType:
    """A module by its name. Raises InputError for whatever it raises."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise InputError(where, f"cannot be imported: {error}", remedy) from error


def _from_file(name: str) -> ModuleType:
    """A file's module: under its own name, so that other processes find it under the same."""
    path = Path(name).absolute()
    if not path.is_file():
        raise InputError(VARIABLE, f"{name} is not a file; give the path of a Python file, or remove it")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    module = imported(path.stem, f"{VARIABLE}: {name}", "fix it, or remove it")
    if Path(module.__file__ or "").resolve() != path.resolve():
        raise InputError(f"{VARIABLE}: {name}", f"another module is named {path.stem}; rename the file")
    return module
