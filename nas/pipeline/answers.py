"""Turns the user's files and a few answers into the options of `nas train --data`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nas import tasks
from nas.tasks.base import Task
from nas.tasks.files import Row
from nas.tasks.guessing import Guess, guess
from nas.tasks.options import SPLITS
from search_spaces import InputError, SearchSpace
from search_spaces.errors import Option, with_references

Answer = Callable[[str, str, str, Row], str]
"""Asks for (key, question, default, allowed answers)."""
LARGE_BYTES = 20_000_000
"""Larger files are enough text for any vocabulary size."""


def data_of(paths: Sequence[str], options: Mapping[str, str], task: str | None, ask: Answer,
            say: Callable[[Guess], None]) -> Guess:
    """The options of files; asks only for what the files leave open, and checks that they can be read.

    Args:
        options: options given by the user; they override detection.

    Raises:
        InputError: the files cannot be read, or not for this task.
    """
    options, paths = dict(options), paths or [options[key] for key in ("train",) if key in options]
    if not paths or not _is_there(paths[0]):
        if "hf" not in options and "train" not in options:
            if paths:
                raise InputError(paths[0], "no such file or folder")
            raise InputError(Option("data"), "no file given; give a file or folder besides the options")
        name = task or ask("task", "Task?", "lm", tuple(sorted(tasks.names())))
        tasks.get(name).check_data(options)
        return Guess("as given", name, options)
    detected = guess(paths, task)
    kept = {key: value for key, value in detected.data.items() if key not in options}
    if "pattern" in options or "format" in options:
        kept = {key: value for key, value in kept.items() if key in SPLITS or key == "encoding"}
    say(detected)
    name = task or _task(detected, ask, options)
    picked = {**kept, **_columns(detected, tasks.get(name), ask, options), **options}
    checked, notes = _checked(tasks.get(name), picked, options)
    say(Guess("", name, checked, notes=notes))
    return replace(detected, task=name, data=checked, notes=notes)


def _is_there(path: str) -> bool:
    return Path(path).expanduser().exists()


def _task(detected: Guess, ask: Answer, options: Mapping[str, str]) -> str:
    """The task; asks if the columns are ambiguous. One that has the columns the user named, if any has."""
    named = {role for name in tasks.names() for role in tasks.get(name).roles} & set(options)
    having = [name for name in tasks.names() if named <= set(tasks.get(name).roles)]
    if having and detected.task not in having:
        return having[0]
    fitting = tuple(name for name in tasks.names() if set(tasks.get(name).roles) <= set(detected.picks)
                    and tasks.get(name).may_read(_sample(detected, tasks.get(name).roles)))
    if detected.task in fitting and len(fitting) > 1 and len(detected.columns) > 1:
        return ask("task", "Task?", detected.task, fitting)
    return detected.task


def _sample(detected: Guess, roles: Row) -> list[Row]:
    """The first rows as a task would read them, from the likeliest columns."""
    places = [detected.columns.index(detected.picks[role][0]) for role in roles if detected.picks[role]]
    return [tuple(row[place] for place in places) for row in detected.rows] if len(places) == len(roles) else []


def _columns(detected: Guess, task: Task, ask: Answer, options: Mapping[str, str]) -> dict[str, str]:
    """The column of every role of the task; asks if several are possible."""
    if not detected.picks:
        return {}
    picked: dict[str, str] = {}
    for role in task.roles:
        likely = tuple(name for name in detected.picks.get(role, detected.columns) if name not in picked.values())
        rest = tuple(name for name in detected.columns if name not in picked.values())
        if role in options:
            picked[role] = options[role]
        elif not rest:
            raise InputError(Option("data"), f"the task {task.name} needs a column for {role}; found only "
                                             f"{', '.join(detected.columns)}")
        elif len(likely) == 1 or len(rest) == 1:
            picked[role] = (likely or rest)[0]
        else:
            picked[role] = ask(role, f"Which {detected.part} is the {role}?", (likely or rest)[0], rest)
    return picked


def _checked(task: Task, data: dict[str, str], options: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The options with splits that can be read: one that was only found next to the training file may be dropped."""
    notes = [f"{split}: {data[split]}, found next to the training file" for split in SPLITS[1:]
             if split in data and split not in options]
    columns = [f"{role} is {data[role]!r}" for role in task.roles if role in data]
    notes += [f"task {task.name}{'; ' if columns else ''}{', '.join(columns)}"]
    try:
        task.check_data(data)
        return data, tuple(notes)
    except InputError as error:
        doubtful = [split for split in SPLITS[1:] if split in data and split not in options]
        if not doubtful:
            raise
        without = {key: value for key, value in data.items() if key not in doubtful}
        task.check_data(without)
        return without, (f"{', '.join(data[split] for split in doubtful)}: not used ({error.faults[0].message})",)


def fitting_vocab(task: Task, data: dict[str, str], space: SearchSpace) -> dict[str, str]:
    """The options with a `vocab_size` where a small text cannot fill the vocabulary of the space."""
    path = Path(data.get("train", "")).expanduser()
    if not data or "vocab_size" in data or path.is_file() and path.stat().st_size > LARGE_BYTES:
        return data
    with tempfile.TemporaryDirectory() as folder:
        try:
            task.prepare(data, space, Path(folder) / "data", 0)
        except InputError as error:
            sizes = [re.search(r"vocab_size=(\d+)", with_references(fault.message)) for fault in error.faults
                     if fault.key == "vocab_size"]
            if not sizes or sizes[0] is None:
                raise
            return {**data, "vocab_size": sizes[0][1]}
    return data
