"""Tasks: data, training targets and metrics. One file each; README.md says what such a file holds.

User tasks come from packages, through the entry-point group `nas.tasks`, or from single files: see
`search_spaces.plugins`.
"""

from __future__ import annotations

import re

from nas.tasks.base import Prepared, Task
from search_spaces import plugins
from search_spaces.errors import InputError, did_you_mean

__all__ = ["GROUP", "Prepared", "Task", "get", "names"]
GROUP = "nas.tasks"
REQUIRED = ("name", "help", "family", "title", "first_space", "roles", "metrics")
"""Attributes that every task must declare."""


def get(name: str) -> Task:
    """The task of that name. Raises InputError with the available names."""
    try:
        return _registry()[name]
    except KeyError:
        message = f"unknown {name!r}; allowed: {', '.join(names())}{did_you_mean(name, names())}"
        raise InputError("task", message) from None


def names() -> list[str]:
    """The tasks there are, sorted."""
    return sorted(_registry())


@plugins.cached
def _registry() -> dict[str, Task]:
    return plugins.values(__name__, GROUP, Task, "task", _check)  # type: ignore[type-abstract]


def _check(task: Task, where: str) -> None:
    lacking = [name for name in REQUIRED if not getattr(task, name, "")]
    if lacking:
        raise InputError(where, f"the task {type(task).__name__} has no {' and no '.join(lacking)}")
    if not re.fullmatch(r"[a-z][a-z0-9-]*", task.name):
        raise InputError(where, f"{task.name!r} cannot name a task; allowed: lower-case letters, digits and -")
    if "loss" not in task.metrics:
        raise InputError(where, f"the task {task.name} has no metric loss, which training and search minimise")
