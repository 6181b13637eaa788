"""YAML -> SearchSpace, with every fault of the file in one report."""

from __future__ import annotations

import copy
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from search_spaces import plugins
from search_spaces.architecture import Architecture
from search_spaces.errors import Fault, InputError, did_you_mean, shown
from search_spaces.files import ARCHITECTURE
from search_spaces.files.compile import compile_space
from search_spaces.files.reading import MOST_YAML_BYTES, kind_of, parse_yaml, read_text
from search_spaces.files.schema import SpaceFile
from search_spaces.space.search_space import SearchSpace


def shipped_spaces() -> list[str]:
    """The names of the shipped spaces."""
    return sorted(entry.name.removesuffix(".yaml") for entry in files("search_spaces").iterdir()
                  if entry.name.endswith(".yaml"))


def load_space(name_or_path: str | Path) -> SearchSpace:
    """A space by its shipped name, or from a YAML file.

    Raises:
        InputError: there is no such space, or the file is invalid; lists all faults.
    """
    where = f"{name_or_path}.yaml" if str(name_or_path) in shipped_spaces() else str(name_or_path)
    return space_from_text(space_text(name_or_path), where)


def space_text(name_or_path: str | Path) -> str:
    """The YAML of a space, by its shipped name or from a file. Raises InputError if there is none."""
    text = str(name_or_path)
    if text in shipped_spaces():
        return files("search_spaces").joinpath(text + ".yaml").read_text("utf-8")
    return read_text(Path(text), "" if Path(text).exists() else _space_hint(text), MOST_YAML_BYTES)


def load_architecture(path: str | Path) -> Architecture:
    """An architecture from its JSON file, or from the folder that holds its `architecture.json`. Raises InputError."""
    file = Path(path) / ARCHITECTURE if Path(path).is_dir() else Path(path)
    return Architecture.from_json(read_text(file), str(file))


@plugins.cached
def space_from_text(content: str, where: str) -> SearchSpace:
    """A space from YAML text; `where` names it in errors. Equal arguments return the same object."""
    return space_from_data(parse_yaml(content, where), where)


def space_from_data(data: object, where: str) -> SearchSpace:
    """A space from what a YAML file holds."""
    if not isinstance(data, dict):
        raise InputError(where, f"must be a table of keys, found {kind_of(data)}")
    try:
        parsed = SpaceFile.model_validate(data)
    except ValidationError as error:
        faults = [_fault(SpaceFile, data, dict(item)) for item in error.errors()]
        raise InputError(where, [*faults, *_more_faults(data, error, where)]) from None
    return compile_space(parsed, where)


_STAND_INS = {"schema_version": 1, "name": "unnamed", "vocab_size": 1000, "context": 128}
"""Values for mandatory keys that are wrong, so that the rest of the file can be checked too."""


def _more_faults(data: dict[Any, Any], error: ValidationError, where: str) -> tuple[Fault, ...]:
    """Further faults besides the keys just reported, so that one report contains all of them."""
    rest = copy.deepcopy(data)
    for _ in range(3):  # deleting a key can make the table around it invalid
        for item in reversed(error.errors()):  # from the back: deleting an entry moves those after it
            path = _path(rest, item["loc"])
            _take_out(rest, path[:-1] if item["type"] == "missing" and len(path) > 1 else path)
        try:
            compile_space(SpaceFile.model_validate(rest), where)
        except InputError as more:
            return more.faults
        except ValidationError as again:
            error = again
        else:
            break
    return ()


def _path(data: object, location: tuple[int | str, ...]) -> list[int | str]:
    """A pydantic location as a path in the file, where a single value is not written as a list."""
    path: list[int | str] = []
    node: Any = data
    for part in location:
        inside = isinstance(node, list) or (isinstance(node, dict) and part in node)
        if _is_branch(part) or (isinstance(part, int) and not inside):
            continue
        path.append(part)
        node = node[part] if inside and not (isinstance(node, list) and not _is_index(part, node)) else None
    return path


def _is_index(part: object, entries: list[Any]) -> bool:
    return isinstance(part, int) and 0 <= part < len(entries)


def _take_out(data: dict[Any, Any], path: list[int | str]) -> None:
    """Delete the value at a path; a mandatory key gets a value that is always valid."""
    *containers, last = path or [""]
    node: Any = data
    for part in containers:
        inside = _is_index(part, node) if isinstance(node, list) else isinstance(node, dict) and part in node
        node = node[part] if inside else None
    if isinstance(node, dict):
        node.pop(last, None)
        if not containers and last in _STAND_INS:
            node[last] = _STAND_INS[last]
    elif isinstance(node, list) and isinstance(last, int) and _is_index(last, node):
        del node[last]


def _space_hint(name: str) -> str:
    names = shipped_spaces()
    return f"it is not a shipped space either{did_you_mean(name, names)}; shipped: {', '.join(names)}"


def _fault(model: type[BaseModel], data: object, error: dict[str, Any]) -> Fault:
    """A pydantic error as a fault in plain words."""
    path = _path(data, error["loc"])
    fields, names, description = model.model_fields, [], ""
    for part in path:
        names.append(str(part))
        if isinstance(part, str) and part in fields:
            description = fields[part].description or description
            inner = _inner_model(fields[part].annotation)
            fields = inner.model_fields if inner else fields
    key = ".".join(names)
    if error["type"] == "invalid_key" or (not isinstance(error["input"], str) and error["loc"][-1] == "[key]"):
        return Fault(key, f"{shown(error['input'])} is not a string; keys must be strings")
    if error["type"] == "extra_forbidden":
        return Fault(key, f"unknown key; allowed: {', '.join(fields)}")
    if error["type"] == "missing":
        return Fault(key, f"is missing; allowed: {description}")
    if error["type"] == "too_short":
        return Fault(key, f"is empty; give at least one value; allowed: {description}")
    return Fault(key, f"{shown(error['input'])} is not allowed; allowed: {description}")


def _is_branch(part: object) -> bool:
    """Whether a step of pydantic's path names a branch of a union, not a key of the file."""
    return isinstance(part, str) and bool(re.match(r"(function-\w+|literal|list|nullable)\[|\[key\]$", part))


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    """The model inside `Model`, `Model | None` or `dict[str, Model]`."""
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
