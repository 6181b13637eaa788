"""A digest of the compiled and timed code, to invalidate results of other code."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path

from nas.core.timing import workloads
from search_spaces import registry as kinds
from search_spaces import residual as residuals


def of_kinds(names: Iterable[str]) -> str:
    """The digest of block kinds and of the code that combines them, including norms and residuals."""
    known = kinds.registry()
    blocks = {known[name].module.__module__ for name in names if name in known}
    around = {residual.module.__module__ for residual in residuals.registry().values()}
    return digest(frozenset({workloads.__name__, *blocks, *around}))


@lru_cache(maxsize=256)
def digest(modules: frozenset[str]) -> str:
    """SHA-256 of the source of modules and of all that they import from their own packages and from supernet."""
    packages = {"supernet", *(name.split(".")[0] for name in modules)}
    digests: dict[str, str] = {}
    todo = set(modules)
    while todo:
        name = todo.pop()
        spec = _spec(name)
        source = Path(spec.origin).read_bytes() if spec and spec.origin and Path(spec.origin).is_file() else b""
        digests[name] = hashlib.sha256(source).hexdigest()
        todo |= {other for other in _imported(source, spec) if other.split(".")[0] in packages and _spec(other)}
        todo -= set(digests)
    return hashlib.sha256(repr(sorted(digests.items())).encode()).hexdigest()


def _imported(source: bytes, spec: ModuleSpec | None) -> Iterator[str]:
    """Names of modules that a source imports; what is imported from a module may be one too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(relative, spec.parent if spec else None)
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None  # a class or function of a module
