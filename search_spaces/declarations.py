"""Reads the declarations of a package's files without importing torch.

A block is one file: its declaration and its torch module. Spaces, keys and the command line need the declaration only,
and torch takes seconds to import. So a file's statements run here without its classes, and without imports except those
of the standard library, `search_spaces` and files of the same folder; whatever else it names is imported when it is
called. Files of users and of other packages are simply imported.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from functools import reduce
from importlib.util import find_spec
from typing import Any

RUN = {"search_spaces", *sys.stdlib_module_names}
"""Packages that a declaration may import immediately."""
Namespace = dict[str, Any]


class Later:
    """A lazy reference to a name in a module, imported when it is called."""

    def __init__(self, module: str, name: str, doc: str | None = None) -> None:
        self.__module__, self.__qualname__, self.__doc__ = module, name, doc

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Import it and call it."""
        return self.resolve()(*arguments, **options)

    def __getattr__(self, name: str) -> Later:
        if name.startswith("__"):
            raise AttributeError(name)
        return Later(self.__module__, f"{self.__qualname__}.{name}".lstrip("."))

    def resolve(self) -> Any:
        """Import it."""
        names = self.__qualname__.split(".") if self.__qualname__ else ()
        return reduce(getattr, names, importlib.import_module(self.__module__))


def read(package: str) -> list[Namespace]:
    """The names that every module of a package defines, in the order of their files."""
    spec = find_spec(package)
    assert spec is not None, f"{package} is not installed"
    known: dict[str, Namespace] = {}
    return [_read(info.name, package, known)
            for info in pkgutil.iter_modules(spec.submodule_search_locations, f"{package}.")]


def _read(module: str, package: str, known: dict[str, Namespace]) -> Namespace:
    """The names that a module defines.

    Args:
        known: what was read of the package already, and is added to.
    """
    if module not in known:
        spec = find_spec(module)
        assert spec is not None and spec.origin is not None, f"{module} has no file"
        with open(spec.origin, encoding="utf-8") as file:
            tree = ast.parse(file.read(), spec.origin)
        names = known[module] = {"__name__": module}
        kept = []
        for node in tree.body:
            replaced = dict(_replaced(node, module, package, known))
            names.update(replaced)
            kept += [] if replaced else [node]
        tree.body = kept
        exec(compile(tree, spec.origin, "exec"), names)  # noqa: S102 - our own files
    return known[module]


def _replaced(node: ast.stmt, module: str, package: str, known: dict[str, Namespace]) -> Iterator[tuple[str, Any]]:
    """The names that a skipped statement defines; nothing for a statement that is run."""
    if isinstance(node, ast.ClassDef):
        yield node.name, Later(module, node.name, ast.get_docstring(node, clean=False))
    elif isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] not in RUN:
                yield alias.asname or alias.name.split(".")[0], Later(alias.name, "")
    elif isinstance(node, ast.ImportFrom):
        source = str(node.module)
        for alias in node.names:
            if source.startswith(f"{package}."):
                yield alias.asname or alias.name, _read(source, package, known)[alias.name]
            elif source.split(".")[0] not in RUN:
                yield alias.asname or alias.name, Later(source, alias.name)
