"""YAML -> SearchSpace, with every fault of the file in one report."""

from __future__ import annotations

import difflib
from collections.abc import Hashable
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from search_spaces.architecture import Architecture
from search_spaces.compile import compile_space
from search_spaces.errors import Fault, InputError
from search_spaces.file_schema import SpaceFile
from search_spaces.space import SearchSpace


def shipped_spaces() -> list[str]:
    """The names of the spaces that come with the package."""
    return sorted(entry.name.removesuffix(".yaml") for entry in files("search_spaces").iterdir()
                  if entry.name.endswith(".yaml"))


def load_space(name_or_path: str | Path) -> SearchSpace:
    """A space by its shipped name, or from a YAML file.

    Raises:
        InputError: there is no such space, or the file is wrong; lists everything that is.
    """
    text = str(name_or_path)
    if text in shipped_spaces():
        where, content = text + ".yaml", files("search_spaces").joinpath(text + ".yaml").read_text("utf-8")
    else:
        where, content = text, _read(Path(text))
    return space_from_text(content, where)


def load_architecture(path: str | Path) -> Architecture:
    """An architecture from its JSON file. Raises InputError."""
    return Architecture.from_json(_read(Path(path)), str(path))


def space_from_text(content: str, where: str) -> SearchSpace:
    """A space from YAML text; `where` names it in errors."""
    return space_from_data(parse_yaml(content, where), where)


def space_from_data(data: object, where: str) -> SearchSpace:
    """A space from what a YAML file holds."""
    if not isinstance(data, dict):
        raise InputError(where, f"must be a table of keys, found {_kind_of(data)}")
    try:
        parsed = SpaceFile.model_validate(data)
    except ValidationError as error:
        raise InputError(where, [_fault(SpaceFile, dict(item)) for item in error.errors()]) from None
    return compile_space(parsed, where)


def parse_yaml(content: str, where: str) -> object:
    """What a YAML text holds; safe loader, duplicate keys refused. Raises InputError."""
    try:
        return yaml.load(content, Loader=_UniqueKeyLoader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(where, f"not valid YAML{place}: {problem}") from None
    except (RecursionError, ValueError) as error:
        raise InputError(where, f"not valid YAML: {type(error).__name__} while reading it") from None


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a key that stands twice in one table: YAML would keep the last silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)  # type: ignore[no-untyped-call]
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a word or number", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(str(path), f"is not UTF-8 text: byte {error.start} cannot be read") from None
    except OSError as error:
        names = shipped_spaces()
        close = difflib.get_close_matches(str(path), names, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InputError(str(path), f"cannot be read ({error.strerror}) and is no shipped space{hint}; "
                                    f"shipped: {', '.join(names)}") from None


def _fault(model: type[BaseModel], error: dict[str, Any]) -> Fault:
    """A pydantic error in our words."""
    path = [part for part in error["loc"] if isinstance(part, (int, str))]
    fields, names, description = model.model_fields, [], ""
    for part in path:
        names.append(str(part))
        if isinstance(part, str) and part in fields:
            description = fields[part].description or description
            inner = _inner_model(fields[part].annotation)
            fields = inner.model_fields if inner else fields
    key = ".".join(name for name in names if name not in _PYDANTIC_BRANCHES)
    if error["type"] == "extra_forbidden":
        return Fault(key, f"unknown key; allowed: {', '.join(fields)}")
    if error["type"] == "missing":
        return Fault(key, f"is missing; allowed: {description}")
    if error["type"] == "too_short":
        return Fault(key, f"is empty; give at least one value; allowed: {description}")
    return Fault(key, f"{_short(error['input'])} is not allowed; allowed: {description}")


_PYDANTIC_BRANCHES = ("function-before[_listed(), list[constrained-int]]", "literal['scaled']", "list[constrained-int]")


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    """The model inside `Model`, `Model | None` or `dict[str, Model]`."""
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _kind_of(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
