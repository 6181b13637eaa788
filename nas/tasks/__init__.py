"""Tasks: what a model is trained for and judged by. The folder is scanned; adding a file adds a task."""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache

from nas.tasks.base import Prepared, Task
from search_spaces.errors import InputError

__all__ = ["Prepared", "Task", "get", "names"]


def get(name: str) -> Task:
    """The task of that name. Raises InputError with what there is."""
    try:
        return _registry()[name]
    except KeyError:
        raise InputError("task", f"unknown {name!r}; allowed: {', '.join(names())}") from None


def names() -> list[str]:
    """The tasks there are, sorted."""
    return sorted(_registry())


@lru_cache(maxsize=1)
def _registry() -> dict[str, Task]:
    """Every `TASK` of the modules beside this file, by name."""
    modules = (importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    tasks = (getattr(module, "TASK", None) for module in modules)
    return {task.name: task for task in tasks if isinstance(task, Task)}
