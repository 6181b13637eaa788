"""Files of a user for the time of a test."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from search_spaces import plugins


@contextmanager
def named(folder: Path, **files: str) -> Iterator[None]:
    """Name files, by module and text, in the variable; afterwards all of it is forgotten."""
    before, path, modules = os.environ.get(plugins.VARIABLE, ""), list(sys.path), set(sys.modules)
    try:
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text, "utf-8")
            plugins.add(folder / f"{name}.py")
        yield
    finally:
        os.environ[plugins.VARIABLE] = before
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if name in files:
                del sys.modules[name]
        plugins.forget()
