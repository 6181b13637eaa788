"""The installed measures: the files beside this one, and a user's own.

Those come from packages, through the entry-point group `nas.measures`, or from single files: see
`search_spaces.plugins`.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

from nas.core.measures._base import MeasureKind
from search_spaces import plugins
from search_spaces.errors import InputError

GROUP = "nas.measures"


@plugins.cached
def registry() -> dict[str, MeasureKind]:
    """Every installed measure by its name, in their order. Raises InputError for one that is declared wrongly."""
    found: dict[str, MeasureKind] = {}
    for kind, where in _declared():
        _check(kind, where)
        if found.setdefault(kind.name, kind) is not kind:
            raise InputError(where, f"there is a measure {kind.name} already; rename it")
    return dict(sorted(found.items(), key=lambda item: (item[1].place, item[0])))


def _check(kind: MeasureKind, where: str) -> None:
    lacking = [name for name in ("name", "label") if not getattr(kind, name, "")]
    if lacking:
        raise InputError(where, f"the measure {type(kind).__name__} has no {' and no '.join(lacking)}")
    if not re.fullmatch(r"\w+", kind.name):
        raise InputError(where, f"{kind.name!r} cannot name a measure; allowed: letters, digits and _")


def _declared() -> Iterator[tuple[MeasureKind, str]]:
    names = (info.name for info in pkgutil.iter_modules([str(Path(__file__).parent)]))
    own = (importlib.import_module(f"{__package__}.{name}") for name in names if not name.startswith("_"))
    others = ((plugin.module, plugin.where) for plugin in (*plugins.installed(GROUP), *plugins.files()))
    for module, where in (*((module, module.__name__) for module in own), *others):
        yield from ((value, where) for value in vars(module).values() if isinstance(value, MeasureKind))
