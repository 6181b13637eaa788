"""What is read of our own files without importing torch is what the modules declare."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import fields, replace

import pytest

from search_spaces import declarations
from search_spaces import registry as kinds
from search_spaces.kind import Kind

READ = {kind.name: kind for names in declarations.read(kinds.FOLDER) for kind in names.values()
        if isinstance(kind, Kind)}


@pytest.mark.parametrize("name", sorted(READ))
def test_a_declaration_is_that_of_its_module(name: str) -> None:
    read = READ[name]
    home = importlib.import_module(read.module.__module__)
    cls = read.module.resolve()
    assert cls is getattr(home, read.module.__qualname__) and cls.__doc__ == read.module.__doc__
    candidates = (each for each in vars(inspect.getmodule(cls)).values() if isinstance(each, Kind))
    (real,) = {id(each): each for each in candidates if each.name == name}.values()
    for field in fields(Kind):
        if field.name not in ("module", "rules", "canonical", "length"):
            assert _plain(getattr(read, field.name)) == _plain(getattr(real, field.name)), field.name
    assert [(rule.needs, rule.message) for rule in read.rules] == [(rule.needs, rule.message) for rule in real.rules]
    assert (read.canonical is None, read.length is None) == (real.canonical is None, real.length is None)
    assert list(kinds._kind_faults(replace(read, module=cls))) == []


def _plain(value: object) -> object:
    """Functions by their names: each reading makes its own."""
    return repr(value).split(" at 0x")[0] if callable(value) else value


def test_what_is_imported_later_can_be_called_and_looked_into() -> None:
    assert declarations.Later("math", "sqrt")(4) == 2
    assert declarations.Later("os", "path").join("a", "b") == "a/b"
    with pytest.raises(AttributeError):
        declarations.Later("math", "no_such_thing")(4)
