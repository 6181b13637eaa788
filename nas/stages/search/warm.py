"""Architectures that a search starts from: another run's front, a published model, or a file."""

from __future__ import annotations

from nas.core.fronts import read_front
from nas.core.resolve import Named, resolve
from nas.core.run_dir import RunDir
from search_spaces import Architecture, InputError, SearchSpace
from search_spaces.errors import Option
from search_spaces.published.catalogue import load_published
from search_spaces.published.catalogue import names as published_names


def warm_start(name: str, space: SearchSpace) -> list[Architecture]:
    """The architectures of a run's front, of a file, or of that name; `published` means all published ones.

    Raises:
        InputError: none of them is in the space.
    """
    archs = named(name)
    inside = [arch for arch in archs if arch in space]
    if not inside:
        raise InputError(Option("warm_start"), f"{name}: none of its {len(archs)} architectures is in {space.name}")
    return inside


def named(name: str) -> list[Architecture]:
    """Those of a name, wherever they lie. Raises InputError if it names nothing."""
    if name == "published":
        return [load_published(each) for each in published_names()]
    try:
        run = RunDir.open(name)
    except InputError:
        found = resolve(name)
        if not isinstance(found, Named):
            raise InputError(Option("warm_start"), f"{name} is a space; allowed: a run, an architecture, "
                                                   "published") from None
        return [found.arch]
    return [entry.arch for entry in read_front(run)]
