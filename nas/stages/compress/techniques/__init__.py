"""Ways to make a subnet smaller: one file each; `nas.stages.compress.technique` has the contract.

User techniques come from packages, through the entry-point group `nas.techniques`, or from single files: see
`search_spaces.plugins`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from nas.stages.compress.technique import Technique
from search_spaces import plugins
from search_spaces.errors import InputError, Option, did_you_mean

GROUP = "nas.techniques"


@plugins.cached
def techniques() -> dict[str, type[Technique]]:
    """Every technique by its name. Raises InputError for a plugin file without one."""
    by_name: dict[str, type[Technique]] = {}
    for plugin in plugins.extensions(__name__, GROUP, lambda module: bool(_declared(module))):
        declared = _declared(plugin.module)
        if len(declared) != 1:
            raise InputError(plugin.where, f"declares {len(declared)} techniques; a file must declare exactly one")
        if by_name.setdefault(declared[0].name, declared[0]) is not declared[0]:
            raise InputError(plugin.where, f"a technique {declared[0].name} already exists; rename it")
    return dict(sorted(by_name.items()))


def _declared(module: ModuleType) -> list[type[Technique]]:
    """The techniques that a module defines."""
    return [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Technique)
            and value.__module__ == module.__name__]


def make_technique(options: Mapping[str, Any]) -> Technique:
    """A technique from options by their names, such as `{"prune": 0.5, "rewind": True}`.

    Raises:
        InputError: they are not exactly one technique with options of its own.
    """
    known = techniques()
    named = [name for name in options if name in known]
    if len(named) != 1:
        allowed, given = (word.join(str(Option(name)) for name in names)
                          for word, names in ((" or ", known), (" and ", named)))
        raise InputError("compress", f"takes exactly one of {allowed}; given: {given or 'none'}")
    technique = known[named[0]]
    fields = {name: value for name, value in options.items() if name != technique.name}
    for name in fields:
        if name not in technique.model_fields or name == technique.value:
            raise InputError(Option(name), _not_its_own(name, technique))
    value = {technique.value: options[technique.name]} if technique.value else {}
    try:
        return technique.model_validate({**fields, **value})
    except ValidationError as error:
        first = error.errors()[0]
        option = technique.name if first["loc"][0] == technique.value else str(first["loc"][0])
        raise InputError(Option(option), f"{first['input']} is not allowed: {first['msg']}") from None


def _not_its_own(name: str, technique: type[Technique]) -> str:
    owners = [owner for owner in techniques().values() if name in owner.model_fields]
    if not owners:
        return f"is not an option of {Option(technique.name)}{did_you_mean(name, technique.model_fields)}"
    return f"belongs to {' and '.join(str(Option(owner.name)) for owner in owners)}, not to {Option(technique.name)}"
