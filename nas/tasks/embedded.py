"""Bundled English text: Python's language reference and the docstrings of its standard library."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from nas.tasks.files import Row
from search_spaces.errors import InputError, Setting

N_CLASSES = 8
_PASSAGE = 40
"""Words of a passage to classify."""
_SKIP = {"test", "idlelib", "encodings", "lib2to3", "turtledemo", "ensurepip", "pydoc_data", "tkinter", "turtle",
         "distutils", "this", "antigravity"}
"""Left out: tests, tables, and what some installations lack."""
_RULE = re.compile(r"^[\s*=~^#\"+|-]{3,}$|::=|^\s*>>> ?$")
_ROLE = re.compile(r":[a-z]+(?::[a-z]+)?:`~?([^`<]+)(?:<[^`]*>)?`")


@lru_cache(maxsize=1)
def documents() -> tuple[tuple[str, str], ...]:
    """(chapter or module, text), in a fixed order. Repeated paragraphs are removed.

    Raises:
        InputError: this Python has no sources of its standard library.
    """
    seen: set[str] = set()
    texts = ((name, _fresh(text, seen)) for name, text in [*_topics(), *_modules()])
    kept = tuple((name, text) for name, text in texts if len(text) > 200)
    if len(kept) < 3 * N_CLASSES:
        message = f"this Python has no sources of its standard library; give {Setting('data', 'train', 'PATH')}"
        raise InputError("embedded text", message)
    return kept


def passages() -> list[Row]:
    """(passage, chapter or module) of the classes with the most text, equally many of each."""
    words: dict[str, list[str]] = {}
    for name, text in documents():
        words.setdefault(name.split(".")[0], []).extend(text.split())
    largest = sorted(words, key=lambda name: (-len(words[name]), name))[:N_CLASSES]
    n = min(len(words[name]) for name in largest) // _PASSAGE
    return [(" ".join(words[name][i * _PASSAGE:(i + 1) * _PASSAGE]), name) for name in sorted(largest)
            for i in range(n)]


def _topics() -> Iterator[tuple[str, str]]:
    try:
        topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    except ImportError:  # some systems leave it out
        return
    yield from ((f"reference.{name}", topics[name]) for name in sorted(topics))


def _modules() -> Iterator[tuple[str, str]]:
    """The docstrings of each module, read without importing it."""
    root = Path(sysconfig.get_path("stdlib"))
    for name in sorted(sys.stdlib_module_names - _SKIP):
        if name.startswith("_"):
            continue
        single = root / f"{name}.py"
        for path in [single] if single.is_file() else sorted((root / name).rglob("*.py")):
            inside = path.relative_to(root).with_suffix("").parts
            if _SKIP.isdisjoint(inside) and "tests" not in inside:
                yield ".".join(inside), "\n\n".join(_docstrings(path))


def _docstrings(path: Path) -> Iterator[str]:
    try:
        waiting: list[ast.AST] = [ast.parse(path.read_bytes())]
    except (OSError, SyntaxError, ValueError):
        return
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""
            waiting[:0] = node.body


def _fresh(text: str, seen: set[str]) -> str:
    """The text without markup and without the paragraphs that came before."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", text):
        lines = (_ROLE.sub(r"\1", line) for line in paragraph.splitlines() if not _RULE.search(line))
        plain = "\n".join(re.sub(r"\s+", " ", line).replace("``", "").strip() for line in lines).strip()
        if plain and plain not in seen:
            seen.add(plain)
            paragraphs.append(plain)
    return "\n\n".join(paragraphs) + "\n"
