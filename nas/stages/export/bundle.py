"""Bundles definitions, and everything they need from our packages, into one source file."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from search_spaces import InputError

LEFT_OUT = ("layouts", "matrices", "heads")
"""Methods that exports do not need: store layout, initialisation and declarations for compression."""


class Bundle:
    """Collects definitions of modules, in dependency order.

    Args:
        packages: whose code is copied; everything else is imported.
    """

    def __init__(self, packages: Collection[str]) -> None:
        self.packages = packages
        self.imports: dict[str, None] = {}
        self.texts: dict[str, str] = {}
        self.owners: dict[str, str] = {}

    def add(self, module: str, name: str) -> None:
        """Copy the definition of a name in a module, wherever it is defined.

        Raises:
            InputError: it cannot be copied from its module, or two modules define one name differently.
        """
        source = _source(module)
        if name in source.imported:
            self._import(module, name, *source.imported[name])
        elif name in source.defined:
            self._define(module, name, source)
        else:
            raise InputError(module, f"{name} cannot be put into one file: it is not defined at the top level of its "
                                     "module")

    def _define(self, module: str, name: str, source: _Source) -> None:
        owner = self.owners.setdefault(name, module)
        if owner != module:
            raise InputError(module, f"{name} is a different object in {owner}; rename one of them")
        if name in self.texts:
            return
        self.texts[name] = ""  # recursive definitions are copied once
        node = source.defined[name]
        for needed in _names(node):
            if needed != name and (needed in source.defined or needed in source.imported):
                self.add(module, needed)
        del self.texts[name]  # now it comes after its dependencies
        self.texts[name] = source.text(node)

    def _import(self, module: str, name: str, origin: str, original: str | None) -> None:
        ours = origin.split(".")[0] in self.packages
        if not ours:
            whole = f"import {origin}" if original is None else f"from {origin} import {original}"
            called = original or origin
            self.imports[whole if called == name else f"{whole} as {name}"] = None
        elif original is None or original != name or _is_module(f"{origin}.{original}"):
            raise InputError(module, f"{name} cannot be put into one file: import the names it needs from {origin}")
        else:
            self.add(origin, original)

    def text(self, opening: str, closing: str) -> str:
        """The file: an opening comment, imports, definitions, and a closing statement."""
        parts = [opening + "\n\nfrom __future__ import annotations\n\n" + "\n".join(sorted(self.imports))]
        return "\n\n\n".join([*parts, *self.texts.values(), closing]) + "\n"


@dataclass(frozen=True)
class _Source:
    """The source of a module."""

    lines: list[str]
    defined: dict[str, ast.stmt] = field(default_factory=dict)
    imported: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    said: dict[str, ast.stmt] = field(default_factory=dict)
    """Docstrings of constants."""

    def text(self, node: ast.stmt) -> str:
        """The lines of a definition, without omitted methods."""
        first = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", ()))])
        last = _end(self.said.get(_defines(node)[0], node))
        dropped = {line for part in _left_out(node) for line in range(part.lineno, _end(part) + 1)}
        kept = [self.lines[line - 1] for line in range(first, last + 1) if line not in dropped]
        return "\n".join(kept).rstrip().replace("\n\n\n", "\n\n")


@lru_cache(maxsize=256)
def _source(module: str) -> _Source:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise InputError(module, "cannot be put into one file: its source is missing")
    text = Path(spec.origin).read_text("utf-8")
    source, before = _Source(text.splitlines()), ""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import):
            source.imported.update({alias.asname or alias.name: (alias.name, None) for alias in node.names})
        elif isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
            source.imported.update({alias.asname or alias.name: (node.module, alias.name) for alias in node.names})
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and before:
            source.said[before] = node
        source.defined.update(dict.fromkeys(_defines(node), node))
        before = (_defines(node) or [""])[0]
    return source


def _defines(node: ast.stmt) -> list[str]:
    """The names that a statement defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _names(node: ast.AST) -> Iterator[str]:
    """The names that a definition uses, each once, without those of omitted methods."""
    left_out = {id(inner) for method in _left_out(node) for inner in ast.walk(method)}
    yield from dict.fromkeys(name.id for name in ast.walk(node)
                             if isinstance(name, ast.Name) and id(name) not in left_out)


def _left_out(node: ast.AST) -> list[ast.FunctionDef]:
    body = node.body if isinstance(node, ast.ClassDef) else []
    return [item for item in body if isinstance(item, ast.FunctionDef) and item.name in LEFT_OUT]


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False
